from wholecall.core.conversation import CallResult, Message, PastCall, Result, Role
from wholecall.core.history.pieces import UNRECORDED
from wholecall.core.values import Text
from wholecall.protocols.requests.pairing import AnsweredCall, Exchange, pair

A = PastCall(id="a", name="f", arguments={})
B = PastCall(id="b", name="g", arguments={})
ONE, TWO = Result((Text("1"),)), Result((Text("2"),))
UNKNOWN = Result((Text(UNRECORDED),), failed=True)


def answer(*calls: PastCall) -> Message:
    return Message(Role.ASSISTANT, calls)


def results(**given: Result) -> Message:
    parts = tuple(CallResult(call_id=id, result=result) for id, result in given.items())
    return Message(Role.TOOL, parts)


USER = Message(Role.USER, (Text("u"),))


def test_results_stand_behind_their_calls_in_call_order() -> None:
    messages = [USER, answer(A, B), results(b=TWO, a=ONE), USER]
    assert list(pair(messages)) == [
        Exchange(USER),
        Exchange(answer(A, B), (AnsweredCall(A, ONE), AnsweredCall(B, TWO))),
        Exchange(USER),
    ]


def test_a_missing_result_is_said_to_be_missing() -> None:
    assert list(pair([answer(A)])) == [Exchange(answer(A), (AnsweredCall(A, UNKNOWN),))]


def test_a_result_without_a_call_is_left_out() -> None:
    assert list(pair([results(x=ONE), USER])) == [Exchange(USER)]


def test_calls_in_a_message_each_find_their_results_and_late_ones_too() -> None:
    messages = [answer(A), answer(B), results(a=ONE), USER, results(b=TWO)]
    assert list(pair(messages)) == [
        Exchange(answer(A), (AnsweredCall(A, ONE),)),
        Exchange(answer(B), (AnsweredCall(B, TWO),)),
        Exchange(USER),
    ]


def test_an_id_used_again_has_a_result_for_each_use() -> None:
    messages = [answer(A), results(a=ONE), answer(A), results(a=TWO)]
    assert list(pair(messages)) == [
        Exchange(answer(A), (AnsweredCall(A, ONE),)),
        Exchange(answer(A), (AnsweredCall(A, TWO),)),
    ]
