"""The assignment label on a Pod: for whom it was claimed. It says "busy" to people and to the pool controller; the ledger is the proof.

The label has the claim's generation in an annotation beside it. Taking it off tests the generation, so that a
late request never takes off the label of the claim that came after.
"""

import re
from enum import Enum
from typing import Any, Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from paddock.runners.api import ACCOUNT_LABEL, OWNER_LABEL, UNDISTURBED
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.ledger import Claim

__all__ = ["CLAIM_ANNOTATION", "Assigned", "Assignments"]

CLAIM_ANNOTATION: Final = "tuist.dev/runner-claim"
"""The generation of the claim that the label stands for."""

_TRIES: Final = 3
_PAUSE: Final = 0.1
_TIMEOUT: Final = 2.0
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

log = get_logger("dispatch")


class Assigned(Enum):
    YES = "yes"
    UNKNOWN = "unknown"  # no try was answered; any of them may have arrived, or may yet
    POD_GONE = "pod gone"


class Assignments:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def put(self, pod: PodIdentity, claim: Claim) -> Assigned:
        """Label this very Pod (uid as precondition), in three tries."""
        patch = {
            "metadata": {
                "uid": pod.uid,
                "labels": {OWNER_LABEL: _owner(claim)},
                "annotations": {CLAIM_ANNOTATION: str(claim.generation), **UNDISTURBED},
            }
        }
        for attempt in range(1, _TRIES + 1):
            try:
                await self._client.merge_patch(Pod, pod.name, patch, pod.namespace, timeout=_TIMEOUT)
            except (NotFoundError, ConflictError):
                return Assigned.POD_GONE  # a merge patch without a version conflicts over the uid alone
            except KubeError as error:
                log.warning("a Pod could not be assigned", pod=pod.name, attempt=attempt, error=str(error))
                if attempt < _TRIES:
                    await self._clock.sleep(_PAUSE)
            else:
                return Assigned.YES
        return Assigned.UNKNOWN

    async def take_off(self, pod: PodIdentity, claim: Claim, *, certain: bool) -> bool:
        """Take off the label of this claim and no other; False if it may still be there (the reaper removes the Pod then).

        Unless it is `certain` that the label arrived, "not there" is not believed at once: it may still be on its way.
        """
        label, annotation = _pointer("labels", OWNER_LABEL), _pointer("annotations", CLAIM_ANNOTATION)
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": annotation, "value": str(claim.generation)},
            {"op": "test", "path": label, "value": _owner(claim)},
            {"op": "remove", "path": annotation},
            {"op": "remove", "path": label},
        ]
        for key in UNDISTURBED:
            # Added first, because a release before this one put none on, and what is not there cannot be removed.
            path = _pointer("annotations", key)
            operations += [{"op": "add", "path": path, "value": ""}, {"op": "remove", "path": path}]
        answered = False
        for attempt in range(1, _TRIES + 1):
            try:
                await self._client.json_patch(Pod, pod.name, operations, pod.namespace, timeout=_TIMEOUT)
            except NotFoundError:
                return True
            except InvalidError:
                answered = True  # another claim's label, or none
                if certain:
                    return True
            except KubeError as error:
                answered = False
                log.warning("an assignment label could not be removed", pod=pod.name, attempt=attempt, error=str(error))
            else:
                return True
            if attempt < _TRIES:
                await self._clock.sleep(_PAUSE * attempt)
        return answered

    async def name_account(self, pod: PodIdentity, claim: Claim) -> None:
        """The account's id on the Pod, after the commit. One try: no decision needs it."""
        patch = {"metadata": {"uid": pod.uid, "labels": {ACCOUNT_LABEL: str(claim.account_id)}}}
        try:
            await self._client.merge_patch(Pod, pod.name, patch, pod.namespace, timeout=_TIMEOUT)
        except KubeError as error:
            log.warning("a served Pod could not be labelled with its account", pod=pod.name, error=str(error))


def _owner(claim: Claim) -> str:
    return claim.login if _LABEL_VALUE.fullmatch(claim.login) else f"account-{claim.account_id}"


def _pointer(part: str, key: str) -> str:
    return f"/metadata/{part}/{key.replace('~', '~0').replace('/', '~1')}"
