"""The world outside the cluster: the cloud and GitHub, if this environment knows how to reach them."""

from collections.abc import Mapping, Sequence

from paddock.cli.doctor.check import Check, bad, good, unknown

__all__ = ["cloud", "github"]

_SHORTEST_SECRET = 20
"""Characters. GitHub suggests a random secret; anything that a person can remember can be guessed."""


async def cloud(environ: Mapping[str, str]) -> list[Check]:
    """Whether the key may list servers, zone by zone: what the inventory does all day."""
    from paddock.base.clock import SystemClock
    from paddock.base.rng import unseeded
    from paddock.clients.scaleway import ScalewayClient, ScalewayError, ScalewaySettings, SettingsError
    from paddock.hosts.validation import KNOWN_ZONES

    if not environ.get("SCW_SECRET_KEY"):
        return [unknown("cloud", "SCW_SECRET_KEY is not set here", "set SCW_SECRET_KEY and SCW_DEFAULT_PROJECT_ID")]
    try:
        settings = ScalewaySettings.from_env(environ)
    except SettingsError as error:
        return [bad("cloud", "the settings cannot work", str(error))]
    checks = []
    async with ScalewayClient(settings, SystemClock(), unseeded()) as client:
        for zone in KNOWN_ZONES:
            try:
                found = await client.list_servers(zone)
            except ScalewayError as error:
                fix = "give the IAM application the AppleSiliconFullAccess permission set for this project"
                checks.append(bad(f"cloud {zone}", str(error), fix))
            else:
                checks.append(good(f"cloud {zone}", f"{len(found.servers)} Macs are listed"))
                checks += [
                    bad(f"Mac {each.name}", "it can serve no machine", each.unwipeable)
                    for each in found
                    if each.unwipeable
                ]
    return checks


async def github(environ: Mapping[str, str]) -> list[Check]:
    """Whether the App's key opens GitHub, and whether its webhook's secret is one."""
    from paddock.base.clock import SystemClock
    from paddock.base.rng import unseeded
    from paddock.clients.github import GitHubClient, GitHubError, GitHubSettings, SettingsError

    if not environ.get("PADDOCK_GITHUB_APP_ID"):
        fix = "set PADDOCK_GITHUB_APP_ID, PADDOCK_GITHUB_PRIVATE_KEY_FILE, and PADDOCK_GITHUB_WEBHOOKS=off or the webhook's secret"
        return [unknown("GitHub", "PADDOCK_GITHUB_APP_ID is not set here", fix)]
    try:
        settings = GitHubSettings.from_env(environ)
    except SettingsError as error:
        return [bad("GitHub", "the settings cannot work", str(error))]
    checks = [_secret([len(secret.reveal()) for secret in settings.webhook_secrets])]
    try:
        async with GitHubClient(settings, SystemClock(), unseeded()) as client:
            installed = await client.installations()
    except GitHubError as error:
        return [*checks, bad("GitHub", str(error), "check the App's id and key, and that GitHub can be reached")]
    if not installed:
        return [
            *checks,
            bad("GitHub", "the App is installed nowhere", "install it on the accounts that it should serve"),
        ]
    return [*checks, good("GitHub", f"{len(installed)} installations can be reached")]


def _secret(lengths: Sequence[int]) -> Check:
    if not lengths:
        return good("webhook secret", "none, because webhooks are off: GitHub is asked for jobs")
    if min(lengths) < _SHORTEST_SECRET:
        fix = "set a random one on the App's settings page and here, such as `openssl rand -hex 32` prints"
        return bad("webhook secret", f"it has {min(lengths)} characters and can be guessed", fix)
    return good("webhook secret", "present, and not trivially short")
