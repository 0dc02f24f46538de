"""The API's description: what it says of every route is what the route does."""

from __future__ import annotations

from placet.gateway.app import BODY_BYTES_MAX
from tests.support.gateway import House


async def test_the_openapi_document_tells_the_errors_we_send(house: House) -> None:
    """Problems are documented where they happen, and the framework's own error form nowhere."""
    async with house.client() as nobody:
        document = (await nobody.get("/openapi.json")).json()
    decisions = document["paths"]["/v1/approvals/{approval_id}/decisions"]["post"]["responses"]
    assert {"200", "202", "400", "401", "403", "404", "409", "413", "415", "429", "503"} == set(decisions)
    assert "HTTPValidationError" not in str(document)


async def test_the_openapi_document_has_a_type_for_every_answer(house: House) -> None:
    """No answer is any object, and no stream is anything: a generated client knows what it gets."""
    async with house.client() as nobody:
        paths = (await nobody.get("/openapi.json")).json()["paths"]
    untyped = [
        (method, path, status, media)
        for path, found in paths.items()
        for method, operation in found.items()
        for status, answer in operation["responses"].items()
        for media, content in answer.get("content", {}).items()
        if path.startswith(("/v1/", "/api/", "/agui")) and status < "300"
        if not content.get("schema") or (media == "application/json" and "object" == content["schema"].get("type"))
    ]
    job = paths["/v1/jobs/{job_id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert ([], {"$ref": "#/components/schemas/JobEvent"}) == (untyped, job["schema"]["contentSchema"])


async def test_the_openapi_document_names_refusals_that_hold_for_every_route(house: House) -> None:
    """A body may be no JSON, too large, or of another kind; a parameter may be unknown."""
    async with house.client() as nobody:
        document = (await nobody.get("/openapi.json")).json()
    operations = [(path, each) for path, found in document["paths"].items() for each in found.values()]
    bodies = [set(each["responses"]) for _, each in operations if "requestBody" in each]
    ours = [set(each["responses"]) for path, each in operations if path.startswith(("/v1/", "/api/", "/agui"))]
    assert (True, True) == (all({"400", "413", "415"} <= each for each in bodies), all("400" in each for each in ours))


async def test_a_body_that_nobody_asked_for_is_refused_as_documented(house: House) -> None:
    """Too large, or of several parts: the document names both answers of every operation that reads no body."""
    large, parts = {"content": b" " * (BODY_BYTES_MAX + 1)}, {"files": {"file": b"x"}}
    async with house.client(house.key("chat")) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        bare = [
            (method, path, each["responses"])
            for path, found in paths.items()
            for method, each in found.items()
            if method != "get" and "requestBody" not in each
        ]
        answers = [
            [(await client.request(method, path, **body)).status_code for body in (large, parts)]
            for method, path, _ in bare
        ]
    assert [[413, 415]] * len(bare) == answers
    assert [] == [(method, path) for method, path, told in bare if not {"413", "415"} <= set(told)]
    assert ("post", "/api/chat/{chat_id}/stop") in [(method, path) for method, path, _ in bare]


async def test_the_openapi_document_has_names_that_say_what_they_are(house: House) -> None:
    """No component tells in which module it is defined; a rulebook's problems are no problem documents."""
    async with house.client() as nobody:
        schemas = (await nobody.get("/openapi.json")).json()["components"]["schemas"]
    problems = schemas["CheckReport"]["properties"]["problems"]["items"]["$ref"]
    assert [] == [name for name in schemas if "__" in name or name.startswith("_")]
    assert {"file", "line", "column", "problem"} == set(schemas[problems.rpartition("/")[2]]["properties"])
