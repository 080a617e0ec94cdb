"""A request, free of any HTTP library, what it asks for, and how GitHub writes JSON."""

import re
from functools import partial
from typing import Any

import msgspec

from paddock.simulator.service import response

__all__ = ["APP_OPERATIONS", "SCALE_SET_OPERATIONS", "GitHubApiRequest", "json_answer", "operation_of"]

_PLACE = r"/(?P<place>orgs/(?P<org>[^/]+)|repos/(?P<owner>[^/]+)/(?P<repo>[^/]+))/actions/runners"
_REPO = r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)/actions"
_SETS = r"/broker/rest/_apis/runtime/runnerscalesets"
_OPERATIONS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (method, name, re.compile(pattern))
    for method, name, pattern in (
        ("GET", "get_app", r"/app"),
        ("GET", "list_installations", r"/app/installations"),
        ("GET", "get_installation", r"/app/installations/(?P<installation_id>\d+)"),
        ("POST", "create_token", r"/app/installations/(?P<installation_id>\d+)/access_tokens"),
        ("GET", "list_deliveries", r"/app/hook/deliveries"),
        ("GET", "get_delivery", r"/app/hook/deliveries/(?P<delivery_id>\d+)"),
        ("POST", "redeliver", r"/app/hook/deliveries/(?P<delivery_id>\d+)/attempts"),
        ("GET", "rate_limit", r"/rate_limit"),
        ("POST", "mint", rf"{_PLACE}/generate-jitconfig"),
        ("GET", "list_runners", _PLACE),
        ("GET", "get_runner", rf"{_PLACE}/(?P<runner_id>\d+)"),
        ("DELETE", "delete_runner", rf"{_PLACE}/(?P<runner_id>\d+)"),
        ("POST", "registration_token", rf"{_PLACE}/registration-token"),
        ("POST", "runner_registration", r"/actions/runner-registration"),
        ("GET", "find_groups", r"/broker/rest/_apis/runtime/runnergroups/"),
        ("GET", "find_scale_sets", _SETS),
        ("POST", "create_scale_set", _SETS),
        ("GET", "get_scale_set", rf"{_SETS}/(?P<scale_set_id>\d+)"),
        ("PATCH", "update_scale_set", rf"{_SETS}/(?P<scale_set_id>\d+)"),
        ("DELETE", "delete_scale_set", rf"{_SETS}/(?P<scale_set_id>\d+)"),
        ("POST", "mint_in_scale_set", rf"{_SETS}/(?P<scale_set_id>\d+)/generatejitconfig"),
        ("POST", "acquire_jobs", rf"{_SETS}/(?P<scale_set_id>\d+)/acquirejobs"),
        ("POST", "open_queue_session", rf"{_SETS}/(?P<scale_set_id>\d+)/sessions"),
        ("PATCH", "renew_queue_session", rf"{_SETS}/(?P<scale_set_id>\d+)/sessions/(?P<session_id>[^/]+)"),
        ("DELETE", "close_queue_session", rf"{_SETS}/(?P<scale_set_id>\d+)/sessions/(?P<session_id>[^/]+)"),
        ("GET", "poll_messages", r"/broker/queue/(?P<session_id>[^/]+)"),
        ("DELETE", "delete_message", r"/broker/queue/(?P<session_id>[^/]+)/(?P<message_id>\d+)"),
        ("GET", "find_agents", r"/broker/rest/_apis/distributedtask/pools/0/agents"),
        ("GET", "get_agent", r"/broker/rest/_apis/distributedtask/pools/0/agents/(?P<runner_id>\d+)"),
        ("DELETE", "delete_agent", r"/broker/rest/_apis/distributedtask/pools/0/agents/(?P<runner_id>\d+)"),
        ("GET", "list_groups", r"/orgs/(?P<org>[^/]+)/actions/runner-groups"),
        ("GET", "get_repository", r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)"),
        ("GET", "get_job", rf"{_REPO}/jobs/(?P<job_id>\d+)"),
        ("GET", "list_runs", rf"{_REPO}/runs"),
        ("GET", "get_run", rf"{_REPO}/runs/(?P<run_id>\d+)"),
        ("GET", "list_jobs", rf"{_REPO}/runs/(?P<run_id>\d+)/jobs"),
    )
)

APP_OPERATIONS = frozenset(
    {
        "get_app",
        "list_installations",
        "get_installation",
        "create_token",
        "list_deliveries",
        "get_delivery",
        "redeliver",
    }
)
"""What needs the App's own JWT; everything else needs an installation's token."""


SCALE_SET_OPERATIONS = frozenset(
    {
        "runner_registration",
        "find_groups",
        "find_scale_sets",
        "create_scale_set",
        "get_scale_set",
        "update_scale_set",
        "delete_scale_set",
        "mint_in_scale_set",
        "acquire_jobs",
        "open_queue_session",
        "renew_queue_session",
        "close_queue_session",
        "poll_messages",
        "delete_message",
        "find_agents",
        "get_agent",
        "delete_agent",
    }
)
"""What the service behind scale sets answers, by tokens of its own and outside the REST budget."""


class GitHubApiRequest(msgspec.Struct, frozen=True):
    method: str
    base_url: str
    path: str
    query: dict[str, str]
    authorization: str
    body: bytes
    headers: dict[str, str] = {}

    def fields(self) -> dict[str, Any] | None:
        """The JSON object in the body, empty where there is no body; None for a body that is no such thing."""
        try:
            decoded = msgspec.json.decode(self.body) if self.body else {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        return decoded if isinstance(decoded, dict) else None


json_answer = partial(response.json_answer, content_type="application/json; charset=utf-8")


def operation_of(request: GitHubApiRequest) -> tuple[str, dict[str, str]]:
    """What the request asks for, and the parts of its path; `unknown` for what this GitHub does not have."""
    for method, name, pattern in _OPERATIONS:
        if method == request.method and (match := pattern.fullmatch(request.path)) is not None:
            return name, {key: value for key, value in match.groupdict().items() if value is not None}
    return "unknown", {}
