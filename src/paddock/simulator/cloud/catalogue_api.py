"""The parts of the API that only show: images, server types, prices, private networks."""

from collections.abc import Callable

from paddock.simulator.cloud import problems, wire
from paddock.simulator.cloud.access import CloudCall, paged
from paddock.simulator.cloud.state import CloudState
from paddock.simulator.service.response import ServiceResponse, json_answer

__all__ = ["CatalogueApi"]


class CatalogueApi:
    def __init__(self, state: CloudState) -> None:
        self._state = state

    def handlers(self) -> dict[str, Callable[[CloudCall], ServiceResponse]]:
        return {
            "list_os": self._list_os,
            "get_os": self._get_os,
            "list_server_types": self._list_server_types,
            "get_server_type": self._get_server_type,
            "list_products": self._list_products,
            "list_private_networks": lambda call: paged(call, "server_private_networks", []),
        }

    def _list_os(self, call: CloudCall) -> ServiceResponse:
        images = [image for image in self._state.images.values() if not image.retired]
        if server_type := call.query.get("server_type"):
            images = [image for image in images if server_type in image.server_types]
        if name := call.query.get("name"):  # a prefix match, so that 26.6 also finds 26.6.1
            images = [image for image in images if name in image.name]
        return paged(call, "os", [wire.image_json(image) for image in images])

    def _get_os(self, call: CloudCall) -> ServiceResponse:
        image = self._state.images.get(call.parts["os_id"])
        if image is None or image.retired:
            raise problems.missing("os", call.parts["os_id"])
        return json_answer(200, wire.image_json(image))

    def _list_server_types(self, call: CloudCall) -> ServiceResponse:
        del call  # the same types in every zone
        offers = [wire.offer_json(self._state, offer) for offer in self._state.offers.values()]
        return json_answer(200, {"server_types": offers})

    def _get_server_type(self, call: CloudCall) -> ServiceResponse:
        offer = self._state.offers.get(call.parts["server_type"])
        if offer is None:
            raise problems.missing("server_type", call.parts["server_type"])
        return json_answer(200, wire.offer_json(self._state, offer))

    def _list_products(self, call: CloudCall) -> ServiceResponse:
        zone = call.query.get("zone", "fr-par-1")
        products = [product for offer in self._state.offers.values() for product in wire.products_json(offer, zone)]
        return paged(call, "products", products)
