"""What Hydra, OmegaConf and the system raise, as one sentence that names the key or file and says
what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    MissingConfigException,
    OverrideParseException,
    SearchPathException,
)
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from evopolicy.cli.hydra import schema
from evopolicy.cli.hydra.groups import group_options
from evopolicy.cli.verbs import VERBS
from evopolicy.kernel.errors import EvoPolicyError, did_you_mean


def sentence(error: BaseException) -> str | None:
    """What to tell the user of `error`; None for an error that is no user's, such as a bug of
    ours."""
    if isinstance(error, EvoPolicyError):
        return str(error)
    if isinstance(error, yaml.MarkedYAMLError):
        return _yaml(error)
    if isinstance(error, OverrideParseException):
        return (
            f"the override '{error.override}' cannot be read: {_first_line(error)}; quote it "
            "as Hydra's grammar says"
        )
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if isinstance(error, SearchPathException):
        return f"--config-dir: {_first_line(error)}"
    if isinstance(error, OmegaConfBaseException):
        return _omegaconf(error, "")
    if isinstance(error, ConfigCompositionException):
        return _composition(error)
    if isinstance(error, HydraException):
        return _first_line(error)
    return None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def _yaml(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{mark.name}, line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"{place}this is not valid YAML: {error.problem or error.context}"


_PLUGINS = {
    "hydra/launcher=joblib": "hydra-joblib-launcher",
    "hydra/launcher=submitit_local": "hydra-submitit-launcher",
    "hydra/launcher=submitit_slurm": "hydra-submitit-launcher",
    "hydra/launcher=ray": "hydra-ray-launcher",
    "hydra/sweeper=optuna": "hydra-optuna-sweeper",
}


def _missing_option(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if not group:
        return f"--config-name: {_first_line(error)}"
    options = {*(error.options or []), *group_options(group)}
    if plugin := _PLUGINS.get(f"{group}={name}"):
        return (
            f"{group}: '{name}' is unknown: it comes with another package. Install it: pip "
            f"install {plugin}"
        )
    return f"{group}: '{name}' is unknown.{did_you_mean(name, sorted(options))}"


def _composition(error: ConfigCompositionException) -> str:
    cause = error.__cause__ or error.__context__
    text = str(error).strip()
    place = re.match(r"In '([^']+)': ", text)
    where = f"{place[1]}.yaml: " if place else ""
    override = re.match(r"Error merging override (.*)", text)
    if isinstance(cause, OmegaConfBaseException):
        return _omegaconf(cause, where, override[1] if override else "")
    key = re.search(r"Could not override '([^']+)'", text)
    if key and "@" in key[1]:
        return (
            f"{where}{key[1]}: no option is chosen at that package; leave '@' and what follows away"
        )
    if key:
        return where + _unknown_key(key[1])
    missing = re.match(r"You must specify '([^']+)'", text)
    if missing:
        return _not_chosen(missing[1])
    return where + (text[place.end() :] if place else text).partition("\n")[0].rstrip(".")


def _omegaconf(error: OmegaConfBaseException, where: str, override: str = "") -> str:
    given = override.lstrip("+~").partition("=")[0]
    key = str(error.full_key or given)
    if given.partition(".")[0] in _CHOOSERS and "." in given:
        return where + _only_a_name(given.partition(".")[0])
    if isinstance(error, MissingMandatoryValue):
        return where + _not_chosen(key)
    if isinstance(error, InterpolationKeyError | InterpolationResolutionError):
        return f"{where}{key}: its ${{...}} cannot be resolved: {_first_line(error)}"
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return where + _unknown_key(key)
    return where + _wrong_type(key, _first_line(error), override)


_NEEDED = {
    "Integer": "a whole number",
    "Float": "a number",
    "Boolean": "true or false",
    "bool": "true or false",
}


def _wrong_type(key: str, text: str, override: str) -> str:
    match = re.match(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", text)
    match = match or re.match(r"Value '(.*)' is not a valid (bool) \(", text)
    if match:
        return f"{key}: {_NEEDED.get(match[2], match[2])} is needed, found '{match[1]}'"
    if text.endswith("is not Optional"):
        return f"{key}: a value is needed, found null"
    found = f", found '{override.partition('=')[2]}'" if override.partition("=")[2] else ""
    if "is not a ListConfig" in text:
        return f"{key}: a list such as [a,b] is needed{found}"
    if "is not a subclass of" in text or "Cannot assign" in text or "not a dict" in text.lower():
        return f"{key}: keys with values are needed here{found or ', found something else'}"
    if "does not support deletion" in text:
        return f"{key}: no key of this group can be deleted"
    return f"{key}: {text}"


_CHOOSERS = {
    "protocol": "sets budget, pool and selection together",
    "experiment": "holds a whole sweep",
    "suite": "is a list of Benchmarks",
}
"""Config groups of which a name is chosen and nothing else: what a name of theirs does."""


def _unknown_key(key: str) -> str:
    parent, _, name = key.rpartition(".")
    if (group := key.partition(".")[0]) in _CHOOSERS:
        return _only_a_name(group)
    if key in VERBS:
        return f"{key}: is a verb, not a key; write evopolicy {key} {VERBS[key].usage}"
    known = [k.rpartition(".")[2] for k in schema.known_keys() if k.rpartition(".")[0] == parent]
    if not parent:
        known += group_options("")
    if not known:
        return (
            f"{key}: '{parent}' has no key '{name}' here; `evopolicy --cfg job {parent}=...` "
            f"shows its keys. Options that only some of a sweep's {parent}s have go into files of "
            "your own (--config-dir)"
            if parent
            else f"{key}: there is no such key"
        )
    return f"{key}: there is no such key.{_near_key(parent, name, known)}"


def _only_a_name(group: str) -> str:
    known = ", ".join(group_options(group))
    return (
        f"{group}: takes a name, which {_CHOOSERS[group]}, and has no keys of its own: "
        f"{group}=NAME. Known: {known}."
    )


def _near_key(parent: str, name: str, known: Iterable[str]) -> str:
    text = did_you_mean(name, known)
    if text.startswith(" Did you mean") and parent:
        return text.replace("'", f"'{parent}.", 1)
    return text


def _not_chosen(key: str) -> str:
    options = group_options(key)
    if options:
        return f"{key}: no option is chosen; write {key}=NAME. Known: {', '.join(options)}."
    return f"{key}: a value is missing; write {key}=VALUE"
