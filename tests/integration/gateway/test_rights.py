"""The gateway's library against an API server: what it asks for is granted, and nothing that a stolen account could misuse is."""

import asyncio

import pytest
from doubles.clocks import SteppedClock
from integration.roles.recording import Requests, rights_of
from unit.hosts.bootstrap.clusters import running_cluster

from paddock.embedded.definitions import our_definitions
from paddock.gateway.identities import KubeHosts
from paddock.gateway.identity import MacIdentity
from paddock.gateway.lease import LEASES, MacLeases
from paddock.gateway.report_order import Heard
from paddock.gateway.rights import gateway_roles
from paddock.gateway.served import EVERY, REMOVED_AFTER, Served
from paddock.hosts.api.silence import served_since
from paddock.kube.builtin import Lease
from paddock.kube.reader import FreshReader
from paddock.runners.tls.keeper import CertificateKeeper

ROLES = gateway_roles("default", "runners", "paddock-macs-tls")
MAC = MacIdentity(
    namespace="default",
    name="mac-1",
    machine_uid="u-1",
    host="host-1",
    key_number=1,
    key_digits="a" * 16,
    rights="all",
)


async def test_leases_certificates_and_fresh_reads_ask_for_nothing_that_is_not_granted():
    requests, clock = Requests(), SteppedClock()
    async with running_cluster(definitions=our_definitions()) as cluster, cluster.client() as plain:
        client = requests.attach(plain)
        leases = [MacLeases(client, clock) for _ in range(3)]
        for sequence in range(1, 10):
            report = Heard(1, "f", 1, "w", sequence)
            assert await leases[sequence % 3].note(MAC, report, proven=True) == "newer"
        lease = await client.get(Lease, "mac-1", LEASES)
        assert lease.metadata.annotations["tuist.dev/mac-report"] == "1 f 1 w 9"
        dead, living = (Served(client, clock, namespace="default", name=name) for name in ("dead", "living"))
        dead.request_came()
        await dead.renew()
        for _ in range(int(REMOVED_AFTER / EVERY) + 2):
            living.request_came()
            await living.renew()
            clock.step(EVERY)
        clock.step(-EVERY)
        found = (await client.list(Lease, "default")).items
        assert [each.metadata.name for each in found] == ["paddock-gateway-living"]
        assert served_since(found, clock.now()) is not None
        hosts = KubeHosts(FreshReader(client), "default")
        assert await hosts.machine("default", "mac-1") is None
        assert await hosts.host("default", "host-1") is None
        assert list(await hosts.hosts()) == []
        for hours in (0, 24 * 25):
            clock.step(hours * 3600)
            keepers = [
                CertificateKeeper(client, clock, namespace="default", name="paddock-macs-tls", hosts=["203.0.113.7"])
                for _ in range(3)
            ]
            pairs = await asyncio.gather(*(each.pair() for each in keepers))
            assert pairs[0] is not None
            assert pairs == [pairs[0]] * 3
    # Which Secret is read the recording does not know; that only two can be is the next test's.
    named = [each for each in requests.not_granted(ROLES) if each.resource != "secrets"]
    assert named == []


def test_a_stolen_account_reads_no_secret_but_those_of_its_listener():
    for role in ROLES:
        for rule in role.rules:
            if "secrets" in rule.resources and set(rule.verbs) != {"create"}:
                assert rule.names == ("paddock-macs-tls", "paddock-macs-tls-ca")


@pytest.mark.parametrize("resource", ["scalewayapplesiliconmachines", "scalewayapplesiliconhosts", "nodes", "pods"])
def test_it_writes_no_machine_and_no_host_and_no_spec_of_a_pod(resource: str):
    granted = {right.verb for right in rights_of(ROLES) if right.resource == resource}
    writes = granted - {"get", "list", "watch"}
    assert writes == {"nodes": {"create", "patch"}, "pods": {"delete"}}.get(resource, set())


def test_what_is_about_pods_is_granted_where_the_runners_are():
    where = {(right.resource, right.namespace) for right in rights_of(ROLES) if right.resource.startswith("pods")}
    assert where == {("pods", "runners"), ("pods/status", "runners")}
