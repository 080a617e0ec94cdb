from datetime import UTC, datetime

import msgspec
import pytest

from paddock.clients.scaleway.billing_floor import floor_of
from paddock.clients.scaleway.errors import (
    Expired,
    InvalidArguments,
    Locked,
    NotFound,
    OutOfStock,
    PermissionDenied,
    PreconditionFailed,
    QuotaExceeded,
    RateLimited,
    ScalewayError,
    TransientState,
    Unauthenticated,
    Unavailable,
    error_of_answer,
)

FLOOR = "this server cannot be deleted before 2026-06-12 07:06:59"


def typed(kind: str, **fields: object) -> bytes:
    return msgspec.json.encode({"type": kind, "message": "as the API says", **fields})


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, typed("not_found"), NotFound),
        (404, typed("unknown_resource"), NotFound),
        (400, typed("not_found"), NotFound),
        (404, b"404 page not found", NotFound),
        (404, b'{"message": "gone"}', NotFound),
        (412, typed("precondition_failed"), PreconditionFailed),
        (400, typed("precondition_failed"), PreconditionFailed),
        (412, b"<html>412</html>", PreconditionFailed),
        (412, b'{"message": "no"}', PreconditionFailed),
        (412, typed("out_of_stock"), OutOfStock),
        (409, typed("transient_state"), TransientState),
        (412, typed("transient_state"), TransientState),
        (409, b'{"message": "conflict"}', TransientState),
        (403, typed("permissions_denied"), PermissionDenied),
        (403, b"forbidden", PermissionDenied),
        (403, typed("quotas_exceeded"), QuotaExceeded),
        (403, typed("locked"), Locked),
        (423, b"", Locked),
        (401, typed("denied_authentication"), Unauthenticated),
        (403, typed("denied_authentication"), Unauthenticated),
        (401, b"", Unauthenticated),
        (400, typed("invalid_arguments"), InvalidArguments),
        (400, b'{"message": "Validation Error", "type": "invalid_request_error"}', InvalidArguments),
        (410, typed("resource_expired"), Expired),
        (429, b"", RateLimited),
        (429, typed("too_many_requests"), RateLimited),
        (500, typed("internal"), Unavailable),
        (502, b"<html><h1>502 Bad Gateway</h1></html>", Unavailable),
        (503, b"", Unavailable),
        (301, b"", Unavailable),
        (418, typed("teapot"), ScalewayError),
    ],
)
def test_both_shapes_of_a_refusal_become_the_same_class(status: int, body: bytes, expected: type[ScalewayError]):
    error = error_of_answer(status, body)
    assert type(error) is expected
    assert error.status == status
    assert str(error)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_5xx_leaves_the_effect_of_a_mutation_unknown_but_not_of_a_read(status: int):
    after_mutation = error_of_answer(status, b"<html>", effect_possible=True)
    after_read = error_of_answer(status, b"<html>", effect_possible=False)
    assert isinstance(after_mutation, Unavailable)
    assert after_mutation.effect_unknown
    assert isinstance(after_read, Unavailable)
    assert not after_read.effect_unknown


def test_an_error_names_its_fields_its_state_and_its_help():
    invalid = error_of_answer(
        400,
        typed(
            "invalid_arguments", details=[{"argument_name": "name", "reason": "constraint", "help_message": "1-255"}]
        ),
    )
    legacy = error_of_answer(400, b'{"message": "Validation Error", "fields": {"name": ["too long"]}}')
    busy = error_of_answer(409, typed("transient_state", current_state="reinstalling", resource="server"))
    floor = error_of_answer(412, typed("precondition_failed", precondition="unknown", help_message=FLOOR))
    assert isinstance(invalid, InvalidArguments)
    assert invalid.fields == {"name": "1-255"}
    assert isinstance(legacy, InvalidArguments)
    assert list(legacy.fields) == ["name"]
    assert isinstance(busy, TransientState)
    assert (busy.current_state, busy.resource) == ("reinstalling", "server")
    assert isinstance(floor, PreconditionFailed)
    assert floor.help_message == FLOOR


@pytest.mark.parametrize(
    "body", [b"[1, 2]", b'"text"', b"\xff\xfe", b'{"type": null, "message": null}', b'{"type": 7}']
)
def test_a_body_of_no_known_shape_still_becomes_an_error(body: bytes):
    assert isinstance(error_of_answer(502, body), Unavailable)
    assert isinstance(error_of_answer(404, body), NotFound)


def test_the_excerpt_of_a_gateway_page_is_short_and_readable():
    error = error_of_answer(502, b"<html><title>502 Bad Gateway</title>" + b"<p>nginx</p>" * 500 + b"</html>")
    assert error.message.startswith("the cloud answered 502: 502 Bad Gateway nginx")
    assert len(error.message) < 200


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (typed("precondition_failed", help_message=FLOOR), datetime(2026, 6, 12, 7, 6, 59, tzinfo=UTC)),
        (
            msgspec.json.encode({"message": f"precondition failed: unknown precondition, {FLOOR}"}),
            datetime(2026, 6, 12, 7, 6, 59, tzinfo=UTC),
        ),
        (b"Precondition Failed", None),
        (b'{"message": "cannot be deleted before 2026-99-99 07:06:59"}', None),
    ],
)
def test_the_date_of_the_billing_floor_is_read_from_either_shape(body: bytes, expected: datetime | None):
    error = error_of_answer(412, body)
    assert isinstance(error, PreconditionFailed)
    assert floor_of(error) == expected
