"""Requests for certificates that cannot be signed: each is its sender's trouble alone."""

import asyncio
import base64
import random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paddock.base.clock import SystemClock
from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.certificate_signer import CertificateSigner
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.api.guards import CSRS
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.node_authorizer import KUBELET_CLIENT
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.rbac import Authorizer
from paddock.embedded.api.representation import decode
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore

Json = dict[str, Any]
CURVE = bytes.fromhex("2a8648ce3d030107")
KEY = bytes.fromhex("2a8648ce3d0201")


def request_of(node: str) -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.DER
    )


def spec_of(der: bytes) -> Json:
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n%b-----END CERTIFICATE REQUEST-----\n" % base64.encodebytes(der)
    usages = ["client auth", "digital signature"]
    return {"signerName": KUBELET_CLIENT, "usages": usages, "request": base64.b64encode(pem).decode()}


@pytest.mark.parametrize("part", [CURVE, KEY], ids=["curve", "kind of key"])
async def test_a_request_with_a_key_that_is_unknown_here_fails_and_the_next_one_is_signed(part: bytes) -> None:
    clock, store = SystemClock(), MemoryStore()
    objects = Objects(store, Kinds(KINDS), clock, random.Random(1))
    kind = objects.kinds.by_resource(CSRS)
    assert kind is not None

    def approved(request: Json) -> Json:
        request["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
        return request

    unknown = request_of("mac-1").replace(part, part[:-1] + b"\x77")
    for name, der in (("a-strange-one", unknown), ("mac-2", request_of("mac-2"))):
        await objects.create(kind, "", {"metadata": {"name": name}, "spec": spec_of(der)}, Write())
        await objects.change(kind, "", name, approved, Write(subresource="status"))
    signer = CertificateSigner(objects, ClientAuthority.made(clock.now()), Authorizer(store))
    running = asyncio.create_task(signer.run())
    try:
        async with asyncio.timeout(10):
            while "certificate" not in (await status_of(store, "mac-2")):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.01)
        assert "Failed" in {said["type"] for said in (await status_of(store, "a-strange-one"))["conditions"]}
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def status_of(store: MemoryStore, name: str) -> Json:
    record = await store.get(Key(CSRS, "", name))
    assert record is not None
    return decode(record)["status"]
