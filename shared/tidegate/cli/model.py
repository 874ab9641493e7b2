"""``tidegate model``: publish a version, look at it, check it, point an alias at it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.hosting import load, unload
from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import emit, examples, json_option, table

if TYPE_CHECKING:
    from tidegate.artifacts.manifest import Manifest, PublishedVersion, TransformSpec
    from tidegate.artifacts.store import ArtifactStore
    from tidegate.ids import ModelName, Version
    from tidegate.settings import Settings


@click.group(
    epilog=examples("tidegate model publish risk model.onnx --alias stable", "tidegate model list")
)
def model() -> None:
    """Publish models, and look after their versions and aliases."""


model.add_command(load)
model.add_command(unload)


@model.command(
    epilog=examples("tidegate model publish risk model.onnx --transform t.toml --alias stable")
)
@click.argument("name")
@click.argument("file", metavar="FILE.onnx", type=click.Path(path_type=Path))
@click.option("--alias", metavar="ALIAS", help="Point this alias at the new version.")
@click.option(
    "--transform",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="T.toml",
    help="How named columns become tensors, and probabilities labels (docs/transforms.md).",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    metavar="X",
    help="How far a row's answer may depend on its batch-mates, absolute.  [default: 1e-05]",
)
@store_option
@config_option
@json_option
def publish(
    name: str,
    file: Path,
    alias: str | None,
    transform: Path | None,
    tolerance: float | None,
    **common: str | None,
) -> None:
    """Check FILE.onnx, run it on random rows, and publish it as the next version of NAME."""
    from tidegate.artifacts.store import ArtifactStore
    from tidegate.clock.system import SystemClock
    from tidegate.ids import parse_alias, parse_model_name
    from tidegate.objects.opening import open_store
    from tidegate.publishing.publish import DEFAULT_TOLERANCE, Candidate
    from tidegate.publishing.publish import publish as publish_version

    candidate = Candidate(
        name=parse_model_name(name),
        file=file,
        transform=transform,
        alias=parse_alias(alias) if alias else None,
        tolerance=DEFAULT_TOLERANCE if tolerance is None else tolerance,
    )
    store = ArtifactStore(open_store(_settings(common).store))  # made by the first publishing
    published = publish_version(store, candidate, clock=SystemClock())
    manifest, tag = published.manifest, published.tag
    lines = [f"published {tag} ({tag.digest})", f"  {manifest.signature}"]
    lines += [f"  {alias} -> {tag}"] if alias else []
    lines += [f"  warning: {warning}" for warning in manifest.warnings]
    emit(_summary(published), json_to=common["json_to"], text="\n".join(lines))


@model.command("list", epilog=examples("tidegate model list --store s3://models/prod"))
@store_option
@config_option
@json_option
def list_models(**common: str | None) -> None:
    """List every model with its versions and aliases."""
    store = _open(common)
    found = [(name, store.versions(name), *_aliases(store, name)) for name in store.names()]
    rows = [
        (name, _join(versions), problem or _pairs(aliases))
        for name, versions, aliases, problem in found
    ]
    empty = f"no model is published in {store.objects.url} yet"
    text = table(("model", "versions", "aliases"), rows) if rows else empty
    keys = ("name", "versions", "aliases", "problem")
    models = [dict(zip(keys, row, strict=True)) for row in found]
    emit({"store": store.objects.url, "models": models}, json_to=common["json_to"], text=text)


def _aliases(store: "ArtifactStore", name: "ModelName") -> tuple[dict[str, int], str | None]:
    """Read them, or say why they cannot be read: other models must not suffer for it."""
    from tidegate.errors import ArtifactError

    try:
        return store.aliases(name).aliases, None
    except ArtifactError as error:
        return {}, str(error)


@model.command(epilog=examples("tidegate model show risk@stable"))
@click.argument("ref", metavar="NAME[@ALIAS|@VERSION]")
@store_option
@config_option
@json_option
def show(ref: str, **common: str | None) -> None:
    """Show what a version is: signature, transforms, files, warnings."""
    store = _open(common)
    published = store.published(*_resolve(store, ref))
    manifest = published.manifest
    labels = manifest.transforms.labels
    facts = {
        "digest": published.tag.digest,
        "published": f"{manifest.created_at} from {manifest.source}",
        "signature": str(manifest.signature),
        "columns": _columns(manifest.transforms),
        "labels": ", ".join(labels.names) if labels else "none",
        "batch axis": manifest.batch_axis,
        "batch-mates": _batch_mates(manifest),
        "opset": _pairs(manifest.opset),
        "files": ", ".join(f"{path} ({file.bytes} B)" for path, file in manifest.files.items()),
        "warnings": "; ".join(manifest.warnings) or "none",
    }
    lines = [str(published.tag), *(f"  {key:<12}{value}" for key, value in facts.items())]
    answer = {**_summary(published), "manifest": manifest}
    emit(answer, json_to=common["json_to"], text="\n".join(lines))


def _columns(transforms: "TransformSpec") -> str:
    """Say what a row is read from."""
    from tidegate.artifacts.transform_specs import worst_waste

    if (text := transforms.text) is not None:
        longer = "refused" if text.too_long == "refuse" else "cut off"
        buckets = text.buckets or ()
        return (
            f"{text.column}: text of up to {text.max_tokens} tokens, more are {longer}; padded to "
            f"{_join(buckets)}, at most {worst_waste(buckets):.0%} of it padding beyond the first"
        )
    if (image := transforms.image) is not None:
        height, width = image.size
        return (
            f"{image.column}: an image ({_join(image.formats)}), {image.fit} to {height} x {width}"
        )
    tabular = transforms.tabular
    return _join(column.name for column in tabular.columns) if tabular else "the inputs"


def _batch_mates(manifest: "Manifest") -> str:
    """Say how far a row's answer depended on its batch-mates when the model was published."""
    measured, tolerance = manifest.batch_invariance.measured, manifest.batch_invariance.tolerance
    if measured is not None:
        return f"change an answer by {measured:g}; {tolerance:g} is allowed"
    if manifest.warnings:  # a difference that is no finite number always has one
        return "change an answer beyond any tolerance: another label, integer or NaN"
    return "none: the model takes one row at a time"


@model.command(epilog=examples("tidegate model verify risk@7"))
@click.argument("ref", metavar="NAME[@ALIAS|@VERSION]")
@store_option
@config_option
@json_option
def verify(ref: str, **common: str | None) -> ExitCode:
    """Read every file of a version and compare its digest; exits 1 if one differs."""
    store = _open(common)
    published = store.published(*_resolve(store, ref))
    problems = store.verify(published.tag.name, published.tag.version)
    files = len(published.manifest.files)
    sound = f"{published.tag} is sound: {files} file(s) have the published bytes"
    emit(
        {**_summary(published), "sound": not problems, "problems": problems},
        json_to=common["json_to"],
        text="\n".join(problems) or sound,
    )
    return ExitCode.FAILED if problems else ExitCode.OK


@model.command(
    epilog=examples(
        "tidegate model alias risk stable 7", "tidegate model alias risk stable 7 --expect 6"
    )
)
@click.argument("name")
@click.argument("alias")
@click.argument("version")
@click.option(
    "--expect",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="Only move it from this version (0: only if it is not set yet); else exit 1.",
)
@store_option
@config_option
@json_option
def alias(name: str, alias: str, version: str, expect: int | None, **common: str | None) -> None:
    """Point ALIAS of NAME at VERSION; gateways follow within a moment, new jobs use it."""
    from tidegate.ids import parse_alias, parse_model_name, parse_version

    model_name, target = parse_model_name(name), parse_version(version)
    moved = _open(common).move_alias(model_name, parse_alias(alias), target, expected=expect)
    emit(
        {"name": name, "aliases": moved.aliases, "revision": moved.revision},
        json_to=common["json_to"],
        text=f"{name}@{alias} -> {version}",
    )


@model.command(epilog=examples("tidegate model pull risk@stable --to ./risk"))
@click.argument("ref", metavar="NAME[@ALIAS|@VERSION]")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where to put the files.  [default: ./NAME-VERSION]",
)
@store_option
@config_option
@json_option
def pull(ref: str, folder: Path | None, **common: str | None) -> None:
    """Copy a version's files to a folder, every byte verified."""
    store = _open(common)
    name, version = _resolve(store, ref)
    target = folder or Path(f"{name}-{version}")
    tag = store.export(name, version, target)
    emit(
        {"name": name, "version": version, "digest": tag.digest, "folder": str(target)},
        json_to=common["json_to"],
        text=f"{tag} is in {target}",
    )


def _settings(common: Mapping[str, str | None]) -> "Settings":
    from tidegate.settings import load_settings

    config = common["config"]
    return load_settings(config=Path(config) if config else None, flags={"store": common["store"]})


def _open(common: Mapping[str, str | None]) -> "ArtifactStore":
    from tidegate.artifacts.store import ArtifactStore
    from tidegate.objects.opening import open_existing_store

    return ArtifactStore(open_existing_store(_settings(common).store))


def _resolve(store: "ArtifactStore", ref: str) -> "tuple[ModelName, Version]":
    from tidegate.ids import ModelRef

    parsed = ModelRef.parse(ref)
    return parsed.name, store.resolve(parsed)


def _summary(published: "PublishedVersion") -> dict[str, object]:
    tag = published.tag
    return {
        "name": tag.name,
        "version": tag.version,
        "digest": tag.digest,
        "tolerance": published.manifest.batch_invariance.tolerance,
        "warnings": published.manifest.warnings,
    }


def _join(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} -> {value}" for key, value in values.items()) or "none"
