"""``/docs``: the OpenAPI document as one page of plain HTML.

No scripts and nothing to fetch: it works without a network, and under a policy that allows
neither. (A page that tries requests out could not reach the public listener anyway, which is
another origin and asks no browser in; hence lines to copy.)
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from tidegate_realtime.api.examples import example_request
from tidegate_realtime.api.served import Catalogue, Offer, ServedVersion

_STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;
padding:0 1rem;color:#1b1f24}
h1{margin-bottom:0}code,pre{font-family:ui-monospace,monospace;font-size:.9em}
pre{background:#f4f6f8;padding:.7rem;overflow-x:auto;white-space:pre-wrap;word-break:break-word}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;
padding:.25rem .6rem;border-bottom:1px solid #dde2e7}section{margin:2rem 0}
.verb{display:inline-block;min-width:3.2rem;
font-weight:600;color:#0b5394}summary{cursor:pointer;padding:.3rem 0}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e4e7eb}pre{background:#22272e}
td,th{border-color:#373e47}.verb{color:#79b8ff}}
"""


def render_docs(document: Mapping[str, Any], catalogue: Catalogue, *, public_url: str) -> str:
    """Write the page.

    Args:
        document: OpenAPI 3.1, of this module's neighbours.
        catalogue: Whose models get an example each.
        public_url: Where the examples go.
    """
    models = "".join(_model(served, public_url) for served in catalogue.versions)
    models += "".join(_newcomers(name, offer) for name, offer in catalogue.offers.items())
    routes = "".join(_routes(document))
    schemas = "".join(_schemas(document["components"]["schemas"]))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Tidegate</title>"
        "<meta name=viewport content='width=device-width'>"
        f"<style>{_STYLE}</style><h1>Tidegate {escape(document['info']['version'])}</h1>"
        f"<p>{escape(document['info']['summary'])} For programs: "
        "<a href='/openapi.json'>openapi.json</a>. For Prometheus: <a href='/metrics'>metrics</a>."
        f"<section><h2>Models</h2>{models}</section>"
        f"<section><h2>Routes</h2><p>At <code>{escape(public_url)}</code>.</p>{routes}</section>"
        f"<section><h2>Bodies</h2>{schemas}</section></html>"
    )


def _model(served: ServedVersion, public_url: str) -> str:
    objective = served.objective
    return (
        f"<h3>{escape(str(served.model.tag))}</h3>"
        f"<p>Answers within {objective.slo_ms:g} ms at p{objective.percentile * 100:g}. "
        f"<code>{escape(served.model.tag.digest)}</code></p>"
        f"<p><code>{escape(str(served.model.signature))}</code></p>"
        f"<pre>{escape(example_request(served, public_url=public_url))}</pre>"
    )


def _newcomers(name: str, offer: Offer) -> str:
    """Say what is on its way, and what failed; the reason is in ``/admin/v1/models``."""
    lines = [f"{name}@{version} is being loaded." for version in sorted(offer.coming)]
    lines += [
        f"{name}@{version} cannot be loaded ({code}); /admin/v1/models/{name} says why."
        for version, code in sorted(offer.failed.items())
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _routes(document: Mapping[str, Any]) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            rows = "".join(
                f"<tr><td>{escape(status)}</td><td>{escape(response['description'])}</td></tr>"
                for status, response in operation["responses"].items()
            )
            yield (
                f"<details><summary><span class=verb>{verb.upper()}</span> "
                f"<code>{escape(path)}</code> {escape(operation['summary'])}</summary>"
                f"{_parameters(operation['parameters'])}{_forms(operation)}"
                f"<table>{rows}</table></details>"
            )


def _forms(operation: Mapping[str, Any]) -> str:
    """Explain the bodies that no schema can describe."""
    contents = operation.get("requestBody", {}).get("content", {})
    return "".join(
        f"<p>As <code>{escape(kind)}</code>: {escape(content['schema']['description'])}</p>"
        for kind, content in contents.items()
        if "description" in content["schema"]
    )


def _parameters(parameters: list[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(item['name'])}</code> ({item['in']})</td>"
        f"<td>{escape(item['description'])}</td></tr>"
        for item in parameters
    )
    return f"<table>{rows}</table>" if rows else ""


def _schemas(schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        rows = "".join(
            f"<tr><td><code>{escape(field)}</code></td><td>{escape(_type(described))}"
            f"{'' if field in schema['required'] else ', optional'}</td></tr>"
            for field, described in schema["properties"].items()
        )
        yield f"<details><summary>{escape(name)}</summary><table>{rows}</table></details>"


def _type(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema['items'])}"
        case "object" if "properties" in schema:
            return "{" + ", ".join(schema["properties"]) + "}"
        case None:
            return "any value"
        case kind:
            return str(kind)
