"""What a simulated service answers, free of any HTTP library, so that it can be kept, delayed and spoiled."""

from typing import Any

import msgspec

__all__ = ["ServiceResponse", "json_answer"]


class ServiceResponse(msgspec.Struct, frozen=True):
    """What goes back. `effect` says whether the service changed; a `lost` answer never arrives."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = {}
    effect: bool = False
    lost: bool = False

    def with_headers(self, headers: dict[str, str]) -> "ServiceResponse":
        """The same answer with these headers as well; its own win."""
        return msgspec.structs.replace(self, headers={**headers, **self.headers})


def json_answer(
    status: int,
    body: Any,
    *,
    effect: bool = False,
    headers: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> ServiceResponse:
    return ServiceResponse(status, msgspec.json.encode(body), content_type, headers or {}, effect)
