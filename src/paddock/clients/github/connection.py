"""The one way a request leaves this package: credential, budget, deadline, typed errors, repeats only where safe."""

import asyncio
import random
from datetime import datetime

import httpx2
import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.secrets import Secret
from paddock.base.tls import default_tls
from paddock.clients.github.app_auth import APP, AppAuth, GrantedToken
from paddock.clients.github.budget import MUTATION_POINTS, READ_POINTS, Budget, Budgets
from paddock.clients.github.contract import Priority
from paddock.clients.github.errors import (
    BudgetSpent,
    Forbidden,
    NotFound,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from paddock.clients.github.messages import Bearer, GitHubRequest, GitHubResponse, Params
from paddock.clients.github.refusals import advice, refusal, server_time, until_reset
from paddock.clients.github.settings import GitHubSettings

__all__ = ["GitHubConnection"]

_KEEPS_METHOD = frozenset({307, 308})
_MOVED = frozenset({301, 302, *_KEEPS_METHOD})
_MOST_MOVES = 2

_log = get_logger("github")


class GitHubConnection:
    """Sends requests to one API as one App.

    Reads are repeated, with jitter and within their deadline, after what may pass. Mutations are sent at most once; the
    exceptions are answers that prove that nothing happened: a 401 (a new credential is tried, once) and a redirect that
    keeps the method. What cannot be sent within `timeout` because of the budget is refused at once with BudgetSpent.
    """

    def __init__(
        self,
        settings: GitHubSettings,
        clock: Clock,
        rng: random.Random,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self.budgets = Budgets(clock)
        self._auth = AppAuth(settings, clock, self._grant)
        self._http = httpx2.AsyncClient(
            base_url=settings.api_url,
            verify=default_tls() if transport is None else False,
            transport=transport,
            timeout=httpx2.Timeout(settings.request_timeout, connect=settings.connect_timeout),
            headers={
                "Accept": "application/vnd.github.v3+json",
                "User-Agent": "paddock",
                "X-GitHub-Api-Version": "2022-11-28",
            },
            limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20),
            trust_env=not settings.is_loopback,
        )

    async def aclose(self) -> None:
        await self._auth.aclose()
        await self._http.aclose()

    def deadline(self, *, whole_list: bool = False) -> float:
        """The moment by which a call that starts now is over, in one way or another."""
        seconds = self._settings.list_timeout if whole_list else self._settings.call_timeout
        return self._clock.monotonic() + seconds

    async def read(self, call: GitHubRequest, deadline: float) -> GitHubResponse:
        """The answer of a GET, asked for again while that can help, then the last error."""
        deadline = min(deadline, self.deadline())
        failures = 0
        while True:
            try:
                return await self._authorised(call, deadline)
            except BudgetSpent:
                raise
            except (Unavailable, RateLimited) as error:
                failures += 1
                wanted = error.retry_after if isinstance(error, RateLimited) else 0.0
                pause = self._settings.backoff.delay(failures, self._rng, wanted)
                late = self._clock.monotonic() + pause >= deadline
                if failures >= self._settings.read_attempts or late or wanted > self._settings.timeout:
                    raise
                _log.debug("read_repeated", path=call.path, failures=failures, pause=round(pause, 3))
                await self._clock.sleep(pause)

    async def mutate(self, call: GitHubRequest, deadline: float) -> GitHubResponse:
        """The answer of a mutation. Its effect happened at most once; an error says what is known of it."""
        return await self._authorised(call, deadline)

    # Credentials

    async def _authorised(self, call: GitHubRequest, deadline: float) -> GitHubResponse:
        credential = await self._credential(call, deadline)
        try:
            return await self._followed(call, credential, deadline)
        except Unauthenticated:
            # Nothing happened, whatever the method: the credential was withdrawn or outlived its end.
            self._auth.refused(call.installation_id, credential)
        except Forbidden:
            self._auth.outdated(call.installation_id, credential)
            raise
        credential = await self._credential(call, deadline)
        try:
            return await self._followed(call, credential, deadline)
        except Unauthenticated:
            self._auth.refused(call.installation_id, credential)
            raise

    async def _credential(self, call: GitHubRequest, deadline: float) -> Secret:
        try:
            async with asyncio.timeout(self._rest(call, deadline)):
                return await self._auth.credential(call.installation_id)
        except TimeoutError:
            raise Unavailable(f"{call.where}: no credential in time; nothing was sent") from None

    async def _grant(self, installation_id: int) -> GrantedToken:
        call = GitHubRequest(
            installation_id=APP,
            priority=Priority.MINT,  # without a token nothing else can be sent
            method="POST",
            path=f"/app/installations/{installation_id}/access_tokens",
            body={},
            harmless=True,
        )
        try:
            answer = await self._authorised(call, self.deadline())
        except NotFound as error:
            # Not a NotFound for the caller: that would pass for proof that a job or a runner is gone.
            raise Unauthenticated(
                f"the App is not installed as {installation_id} (any more): install it, or use its present number",
                status=error.status,
            ) from None
        granted = answer.shaped(_Token)
        lifetime = (granted.expires_at - server_time(answer.headers, self._clock.now())).total_seconds()
        return GrantedToken(granted.token, max(0.0, lifetime))

    # Sending

    async def _followed(self, call: GitHubRequest, credential: Secret, deadline: float) -> GitHubResponse:
        """The answer; what GitHub says has moved within its API (a renamed repository) is asked for there."""
        target = call.path
        params = call.params
        for _ in range(_MOST_MOVES):
            response = await self._exchange(call, target, params, credential, deadline)
            moved = response.status_code in (_KEEPS_METHOD if call.mutation else _MOVED)
            elsewhere = self._inside(response.headers.get("location")) if moved else None
            if elsewhere is None:
                return self._judged(call, credential, response)
            target, params = elsewhere, None
        return self._judged(call, credential, await self._exchange(call, target, params, credential, deadline))

    async def _exchange(
        self, call: GitHubRequest, target: str, params: Params | None, credential: Secret, deadline: float
    ) -> httpx2.Response:
        budget = self.budgets.of(call.installation_id)
        await self._turn(budget, call, deadline)
        headers: httpx2.Headers | None = None
        sent = False
        try:
            async with asyncio.timeout(min(self._settings.request_timeout, self._rest(call, deadline))):
                sent = True
                response = await self._http.request(
                    call.method,
                    target,
                    params=params,
                    content=None if call.body is None else msgspec.json.encode(call.body),
                    headers=None if call.body is None else {"Content-Type": "application/json"},
                    auth=Bearer(credential),
                )
            headers = response.headers
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            # The connection never stood, so that nothing can have happened.
            sent = False
            raise Unavailable(f"{call.where}: {_reason(error)}") from error
        except httpx2.RequestError as error:
            raise Unavailable(f"{call.where}: {_reason(error)}", effect_unknown=call.effect) from error
        except TimeoutError:
            raise Unavailable(f"{call.where}: no answer in time", effect_unknown=call.effect) from None
        finally:
            budget.landed(call.priority, headers, sent=sent)
        return response

    def _judged(self, call: GitHubRequest, credential: Secret, response: httpx2.Response) -> GitHubResponse:
        budget = self.budgets.of(call.installation_id)
        if response.is_success:
            budget.welcome()
            return GitHubResponse(call, response.status_code, response.headers, response.content)
        error = refusal(
            call.where,
            response.status_code,
            response.headers,
            response.content,
            now=self._clock.now(),
            mutation=call.effect,
            hidden=(credential,),
        )
        if isinstance(error, Unauthenticated) and call.installation_id == APP:
            self._auth.refused_at(response.headers.get("date"))
        if isinstance(error, RateLimited):
            error.retry_after = self._held(budget, call, error, response.headers, self._clock.now())
        raise error

    def _held(
        self, budget: Budget, call: GitHubRequest, error: RateLimited, headers: httpx2.Headers, now: datetime
    ) -> float:
        """For how long to leave GitHub alone; the budget sees to it."""
        wanted = advice(headers, now)
        if wanted is None and headers.get("x-ratelimit-remaining") == "0" and until_reset(headers, now) is not None:
            return error.retry_after  # the hour is used up, which the budget has learned: other limits are not touched
        seconds = budget.hold(wanted)
        _log.warning("held_by_github", installation_id=call.installation_id, path=call.path, seconds=round(seconds, 1))
        return seconds

    async def _turn(self, budget: Budget, call: GitHubRequest, deadline: float) -> None:
        """Take from the budget, waiting a moment where that is all it needs."""
        points = MUTATION_POINTS if call.mutation else READ_POINTS
        latest = min(self._clock.monotonic() + self._settings.timeout, deadline)
        while True:
            try:
                return budget.take(call.priority, points)
            except BudgetSpent as spent:
                if self._clock.monotonic() + spent.retry_after > latest:
                    raise
                await self._clock.sleep(spent.retry_after)

    def _rest(self, call: GitHubRequest, deadline: float) -> float:
        rest = deadline - self._clock.monotonic()
        if rest <= 0:
            raise Unavailable(f"{call.where}: no time left; nothing was sent")
        return rest

    def _inside(self, location: str | None) -> str | None:
        """The place a redirect names, if it is on the API's own address: a credential goes nowhere else."""
        if not location:
            return None
        base = httpx2.URL(self._settings.api_url)
        try:
            url = base.join(location)
        except httpx2.InvalidURL:
            return None
        same = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
        return str(url) if same else None


class _Token(msgspec.Struct):
    token: Secret
    expires_at: datetime


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
