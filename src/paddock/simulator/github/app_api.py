"""The part of the API that only the App itself may use: installations, tokens, the delivery log."""

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import islice

import msgspec

from paddock.base.clock import rfc3339
from paddock.simulator.github import problems, wire
from paddock.simulator.github.access import TOKEN_LIFE, GitHubCall, link_header, page_of, paged
from paddock.simulator.github.requests import json_answer
from paddock.simulator.github.state import Attempt, GitHubState, SimulatedAccount, Token
from paddock.simulator.github.webhooks import Webhooks
from paddock.simulator.github.wire_places import app_json, installation_json
from paddock.simulator.service.response import ServiceResponse

__all__ = ["AppApi"]

_REDELIVERABLE = timedelta(days=3)
_CURSOR = "v1_"


class AppApi:
    def __init__(self, state: GitHubState, webhooks: Webhooks, rng: random.Random) -> None:
        self._state = state
        self._webhooks = webhooks
        self._rng = rng

    def handlers(self) -> dict[str, Callable[[GitHubCall], ServiceResponse]]:
        return {
            "get_app": self._get_app,
            "list_installations": self._list_installations,
            "get_installation": self._get_installation,
            "create_token": self._create_token,
            "list_deliveries": self._list_deliveries,
            "get_delivery": self._get_delivery,
            "redeliver": self._redeliver,
        }

    def _get_app(self, call: GitHubCall) -> ServiceResponse:
        del call
        return json_answer(200, app_json(self._state))

    def _list_installations(self, call: GitHubCall) -> ServiceResponse:
        accounts = [account for account in self._state.accounts.values() if account.installed]
        return paged(call, "", accounts, lambda account: installation_json(self._state, account))

    def _get_installation(self, call: GitHubCall) -> ServiceResponse:
        return json_answer(200, installation_json(self._state, self._installation(call)))

    def _create_token(self, call: GitHubCall) -> ServiceResponse:
        account = self._installation(call)
        if account.suspended_at is not None:
            raise problems.suspended()
        expires_at = call.now + TOKEN_LIFE
        tokens = {text: token for text, token in self._state.tokens.items() if token.expires_at > call.now}
        text = f"ghs_{self._rng.getrandbits(180):036x}"[:40]
        tokens[text] = Token(installation_id=account.installation_id, expires_at=expires_at)
        self._state.tokens = tokens
        body = {"token": text, "expires_at": rfc3339(expires_at), "permissions": account.permissions}
        return json_answer(201, {**body, "repository_selection": "all"}, effect=True)

    def _installation(self, call: GitHubCall) -> SimulatedAccount:
        account = self._state.installation(int(call.parts["installation_id"]))
        if account is None:
            raise problems.missing()
        return account

    # The delivery log

    def _list_deliveries(self, call: GitHubCall) -> ServiceResponse:
        """Newest first, successes and failures; the cursor is the oldest entry of the page before."""
        _, size = page_of(call)
        wanted, cursor = call.query.get("status"), call.query.get("cursor", "").removeprefix(_CURSOR)
        if call.query.get("cursor") and not cursor.isdigit():
            raise problems.invalid("Invalid cursor")
        older = (each for each in reversed(self._state.attempts.values()) if not cursor or each.id < int(cursor))
        fitting = (each for each in older if not wanted or (wanted == "success") == (each.status == "OK"))
        *page, after = [*islice(fitting, size), next(fitting, None)]
        links = {"next": {"cursor": f"{_CURSOR}{page[-1].id}"}} if after is not None else {}
        return json_answer(200, [wire.attempt_json(attempt) for attempt in page], headers=link_header(call, links))

    def _get_delivery(self, call: GitHubCall) -> ServiceResponse:
        attempt = self._attempt(call)
        request = {"headers": {"X-GitHub-Delivery": attempt.guid}, "payload": msgspec.json.decode(attempt.body)}
        detail = {"url": self._webhooks.url, "request": request, "response": {"headers": {}, "payload": ""}}
        return json_answer(200, {**wire.attempt_json(attempt), **detail})

    def _redeliver(self, call: GitHubCall) -> ServiceResponse:
        attempt = self._attempt(call)
        if call.now - attempt.delivered_at > _REDELIVERABLE:
            raise problems.invalid("This delivery is too old to be redelivered.")
        self._webhooks.again(attempt, call.now)
        return json_answer(202, {}, effect=True)

    def _attempt(self, call: GitHubCall) -> Attempt:
        attempt = self._state.attempts.get(int(call.parts["delivery_id"]))
        if attempt is None:
            raise problems.missing()
        return attempt
