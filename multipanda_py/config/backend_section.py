# SPDX-License-Identifier: Apache-2.0
"""Check the backend sections of an arm against the settings that backends declare.

A section with the name of a backend contains the settings of this backend
(:mod:`multipanda_py.parameters`). It is checked even if the arm uses another backend. Backends can
share a section: simulated arms read ``franka``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from multipanda_py import registry
from multipanda_py.config.renamed_keys import renamed_key
from multipanda_py.config.section import in_plain_types, messages
from multipanda_py.exceptions import ConfigurationError, SettingsRejected
from multipanda_py.parameters import Settings, Spec, by_class, declaration_fault, declared, live


def find_backend(name: str) -> type[Any]:
    """Return the class of a backend after a check of its declared settings.

    Raises:
        ConfigurationError: If the backend does not exist, cannot be loaded, or declares its
            settings wrongly.
    """
    backend = registry.find("backends", name)
    try:
        fault = declaration_fault(backend.Settings)
    except Exception as error:  # Code of a plug-in can raise anything.
        fault = f"its declaration raises {type(error).__name__}: {error}"
    if fault:
        raise ConfigurationError(
            f"backend {name!r}: {backend.__module__}.{backend.__qualname__}.Settings: {fault}"
        )
    return backend


def section_of(backend: str) -> str:
    """Return the name of the arm's section that contains the settings of a backend.

    It is the name of the backend, or of another backend with which it shares the section.
    """
    return find_backend(backend).settings_section or backend


def sections() -> list[str]:
    """Return the names of all backend sections; backends that cannot be loaded are skipped."""
    sections = []
    for name in registry.names("backends"):
        try:
            if section_of(name) == name and declared(find_backend(name).Settings):
                sections.append(name)
        except ConfigurationError:
            continue
    return sections


def read_settings(backend: str, values: Mapping[str, Any]) -> Settings:
    """Build the settings of a backend for one arm.

    Args:
        backend: Name of the backend.
        values: Checked values of the arm's section for the backend, by name.
    """
    settings: type[Settings] = find_backend(backend).Settings
    return settings(**in_plain_types(values))


def check_sections(
    arm: str, keys: Mapping[str, Any], known: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any] | None, list[str]]]:
    """Check the sections of an arm that contain settings of backends.

    Args:
        arm: Name of the arm.
        keys: Sections by key. A key that is not the name of a backend is an error.
        known: Other keys that an arm may have, for messages.

    Yields:
        Key of a section, checked settings by name (None for an invalid section), and error
        messages.
    """
    for key, value in keys.items():
        path = f"arms.{arm}.{key}"
        if key not in registry.names("backends"):
            new = renamed_key(("arms", arm, key))
            text = f"unknown key; known: {', '.join((*known, *sections()))}"
            yield key, None, [f"{path}: renamed to {new}" if new else f"{path}: {text}"]
            continue
        try:
            backend, section = find_backend(key), section_of(key)
        except ConfigurationError as error:
            yield key, None, [f"{path}: {error}"]
            continue
        if section != key:
            text = f"unknown key; the settings of backend {key} are in section {section}"
            yield key, None, [f"{path}: {text}"]
            continue
        model = _pydantic_model(backend.Settings)
        try:
            checked = model.model_validate(in_plain_types(value))
        except ValidationError as error:
            result = (f"{path}.{text}" for text in messages(error, model))
            yield key, None, [text.replace(f"{path}.: ", f"{path}: ") for text in result]
            continue
        yield key, checked.model_dump(exclude_unset=True), []


def changed(settings: Settings, values: Mapping[str, object], arm: str, section: str) -> Settings:
    """Return the settings of a running arm with some values changed.

    Only settings that can change while the loop runs are accepted.

    Args:
        settings: Current settings.
        values: New values by name.
        arm: Name of the arm, for messages.
        section: Name of the section in the cell file, for messages.

    Raises:
        SettingsRejected: If a setting is unknown, read-only or invalid; the error lists all of
            them.
    """
    kind = type(settings)
    names = [spec.name for spec in live(kind)]
    read_only = {spec.name for spec in declared(kind)} - set(names)
    faults = []
    for name in values:
        if name in read_only:
            faults.append(
                f"{arm}: {name} is read only at the start. Change it in the cell file "
                f"(arms.{arm}.{section}.{name}) and restart the cell"
            )
        elif name not in names:
            known = ", ".join(names) or "none"
            faults.append(f"{arm}: setting {name!r} does not exist; known: {known}")
    model = _pydantic_model(kind)
    given = in_plain_types({name: value for name, value in values.items() if name in names})
    try:
        given = model.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as error:
        faults.extend(f"{arm}: {fault}" for fault in messages(error, model))
    if faults:
        raise SettingsRejected("\n".join(faults))
    return settings.replace(given)


@by_class
def _pydantic_model(settings: type[Settings]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for spec in declared(settings):
        check = AfterValidator(_checker(settings, spec))
        fields[spec.name] = (Annotated[_type(spec), check], spec.default)
    strict = ConfigDict(extra="forbid", frozen=True, strict=True)
    return create_model(settings.__name__, __config__=strict, **fields)


def _checker(settings: type[Settings], spec: Spec) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if spec.kind == "vector":
            for index, (item, (low, high)) in enumerate(zip(value, spec.bounds)):
                if not low <= item <= high:
                    raise ValueError(f"element {index} should be in [{low:g}, {high:g}]")
        reason = settings.refusal(spec.name, value)
        if reason:
            raise ValueError(reason)
        return value

    return check


def _type(spec: Spec) -> Any:
    if spec.kind == "choice":
        return Literal[spec.options]
    plain = {"flag": bool, "text": str}.get(spec.kind)
    if plain is not None:
        return plain
    kind = int if spec.kind == "integer" else float
    low, high = (min(low for low, _ in spec.bounds), max(high for _, high in spec.bounds))
    min_value: dict[str, Any] = {"gt" if spec.exclusive_low else "ge": low}
    finite: dict[str, Any] = {"allow_inf_nan": False} if kind is float else {}
    one: Any = Annotated[kind, Field(le=high, **min_value, **finite)]
    if spec.kind != "vector":
        return one
    return Annotated[list[one], Field(min_length=spec.width, max_length=spec.width)]
