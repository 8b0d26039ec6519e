from wholecall.proxy.config.schema import Secret, reveal


def test_a_secret_is_shown_nowhere_but_where_it_is_asked_for() -> None:
    secret = Secret("sk-123", written="${KEY}")
    assert "sk-123" not in f"{secret} {secret!r} {[secret]} {secret.written}"
    assert (repr(secret), str(secret)) == ("Secret('${KEY}')", "***")
    assert secret.reveal() == reveal(secret) == "sk-123"
    assert reveal("plain") == "plain"


def test_secrets_are_equal_by_what_they_hold() -> None:
    assert Secret("a", written="${ONE}") == Secret("a", written="${TWO}")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
