from wholecall.events import Text
from wholecall.messages import CallResult, Message, PastCall, Result, Role
from wholecall.protocols.history import UNRECORDED
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair

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
        CallExchange(USER),
        CallExchange(answer(A, B), (AnsweredCall(A, ONE), AnsweredCall(B, TWO))),
        CallExchange(USER),
    ]


def test_a_missing_result_is_said_to_be_missing() -> None:
    assert list(pair([answer(A)])) == [CallExchange(answer(A), (AnsweredCall(A, UNKNOWN),))]


def test_a_result_without_a_call_is_left_out() -> None:
    assert list(pair([results(x=ONE), USER])) == [CallExchange(USER)]


def test_calls_in_a_message_each_find_their_results_and_late_ones_too() -> None:
    messages = [answer(A), answer(B), results(a=ONE), USER, results(b=TWO)]
    assert list(pair(messages)) == [
        CallExchange(answer(A), (AnsweredCall(A, ONE),)),
        CallExchange(answer(B), (AnsweredCall(B, TWO),)),
        CallExchange(USER),
    ]


def test_an_id_used_again_has_a_result_for_each_use() -> None:
    messages = [answer(A), results(a=ONE), answer(A), results(a=TWO)]
    assert list(pair(messages)) == [
        CallExchange(answer(A), (AnsweredCall(A, ONE),)),
        CallExchange(answer(A), (AnsweredCall(A, TWO),)),
    ]
