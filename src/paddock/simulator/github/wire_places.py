"""How the simulated GitHub writes accounts, repositories, installations and the App: every field that the real one's schema requires.

Addresses are written as the real GitHub's; `addressed` puts the served one in their place, so that a client that follows
one stays here.
"""

import base64
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.simulator.github.state import PERMISSIONS, GitHubState, SimulatedAccount, SimulatedRepository

__all__ = [
    "API",
    "WEB",
    "account_json",
    "addressed",
    "app_json",
    "installation_json",
    "node_id",
    "repository_json",
    "when",
]

API: Final = "https://api.github.com"
WEB: Final = "https://github.com"
_LONG_AGO: Final = "2020-01-01T00:00:00Z"
_OF_AN_ACCOUNT: Final = {
    "followers_url": "followers",
    "following_url": "following{/other_user}",
    "gists_url": "gists{/gist_id}",
    "starred_url": "starred{/owner}{/repo}",
    "subscriptions_url": "subscriptions",
    "organizations_url": "orgs",
    "repos_url": "repos",
    "events_url": "events{/privacy}",
    "received_events_url": "received_events",
}
_OF_A_REPOSITORY: Final = {
    "archive_url": "{archive_format}{/ref}",
    "assignees_url": "assignees{/user}",
    "blobs_url": "git/blobs{/sha}",
    "branches_url": "branches{/branch}",
    "collaborators_url": "collaborators{/collaborator}",
    "comments_url": "comments{/number}",
    "commits_url": "commits{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "contributors_url": "contributors",
    "deployments_url": "deployments",
    "downloads_url": "downloads",
    "events_url": "events",
    "forks_url": "forks",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "hooks_url": "hooks",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "issues_url": "issues{/number}",
    "keys_url": "keys{/key_id}",
    "labels_url": "labels{/name}",
    "languages_url": "languages",
    "merges_url": "merges",
    "milestones_url": "milestones{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "pulls_url": "pulls{/number}",
    "releases_url": "releases{/id}",
    "stargazers_url": "stargazers",
    "statuses_url": "statuses/{sha}",
    "subscribers_url": "subscribers",
    "subscription_url": "subscription",
    "tags_url": "tags",
    "teams_url": "teams",
    "trees_url": "git/trees{/sha}",
}
_COUNTS: Final = (
    "forks",
    "forks_count",
    "network_count",
    "open_issues",
    "open_issues_count",
    "size",
    "stargazers_count",
    "subscribers_count",
    "watchers",
    "watchers_count",
)


def addressed(body: bytes, address: str) -> bytes:
    """The body with the served address wherever it leads to GitHub's API or pages."""
    here = address.encode()
    return body.replace(API.encode(), here).replace(WEB.encode(), here)


def when(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def node_id(kind: str, number: int) -> str:
    return f"{kind}_{base64.urlsafe_b64encode(str(number).encode()).decode().rstrip('=')}"


def account_json(account: SimulatedAccount) -> dict[str, Any]:
    url = f"{API}/users/{account.login}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("O" if account.kind == "Organization" else "U", account.id),
        "avatar_url": f"{WEB}/avatars/u/{account.id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{WEB}/{account.login}",
        **{name: f"{url}/{path}" for name, path in _OF_AN_ACCOUNT.items()},
        "type": account.kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def repository_json(repository: SimulatedRepository, owner: SimulatedAccount) -> dict[str, Any]:
    url, page = f"{API}/repos/{repository.full_name}", f"{WEB}/{repository.full_name}"
    host = WEB.removeprefix("https://")
    return {
        "id": repository.id,
        "node_id": node_id("R", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": account_json(owner),
        "html_url": page,
        "description": None,
        "fork": False,
        "url": url,
        **{name: f"{url}/{path}" for name, path in _OF_A_REPOSITORY.items()},
        "git_url": f"git://{host}/{repository.full_name}.git",
        "ssh_url": f"git@{host}:{repository.full_name}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": "Swift",
        **dict.fromkeys(_COUNTS, 0),
        "default_branch": "main",
        "has_issues": True,
        "has_projects": True,
        "has_wiki": True,
        "has_pages": False,
        "has_discussions": False,
        "has_downloads": True,
        "archived": False,
        "disabled": False,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "license": None,
        "visibility": "private" if repository.private else "public",
        "pushed_at": _LONG_AGO,
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
    }


def installation_json(state: GitHubState, account: SimulatedAccount) -> dict[str, Any]:
    number = account.installation_id
    page = f"organizations/{account.login}/settings" if account.kind == "Organization" else "settings"
    return {
        "id": number,
        "client_id": state.client_id,
        "account": account_json(account),
        "app_id": state.app_id,
        "app_slug": "paddock",
        "target_id": account.id,
        "target_type": account.kind,
        "repository_selection": "all",
        "access_tokens_url": f"{API}/app/installations/{number}/access_tokens",
        "repositories_url": f"{API}/installation/repositories",
        "html_url": f"{WEB}/{page}/installations/{number}",
        "permissions": account.permissions,
        "events": ["workflow_job"],
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "single_file_name": None,
        "single_file_paths": [],
        "has_multiple_single_files": False,
        "suspended_at": when(account.suspended_at),
        "suspended_by": None if account.suspended_at is None else account_json(account),
    }


def app_json(state: GitHubState) -> dict[str, Any]:
    """The App itself, owned by the first account there is, or by one that nobody sees."""
    owner = next(iter(state.accounts.values()), None) or SimulatedAccount(
        id=1, login="paddock", kind="Organization", installation_id=0, installed=False
    )
    return {
        "id": state.app_id,
        "slug": "paddock",
        "node_id": node_id("A", state.app_id),
        "client_id": state.client_id,
        "owner": account_json(owner),
        "name": "Paddock",
        "description": "Runs jobs on Macs.",
        "external_url": "https://paddock.example.com",
        "html_url": f"{WEB}/apps/paddock",
        "created_at": _LONG_AGO,
        "updated_at": _LONG_AGO,
        "permissions": dict(PERMISSIONS),
        "events": ["workflow_job"],
        "installations_count": sum(account.installed for account in state.accounts.values()),
    }
