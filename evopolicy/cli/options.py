"""Arguments of verbs that compose no config: key=value words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evopolicy.cli.verbs import VERBS
from evopolicy.kernel.errors import ConfigError, did_you_mean
from evopolicy.kernel.run.sweep import SWEEP, sweep_folder
from evopolicy.kernel.session.record import RECORD, output_of_run

OUTPUT = "outputs"
"""As in conf/config.yaml."""
TRACKING = ("tracking.uri", "tracking.experiment", "tracking.artifacts")


def pairs(verb: str, words: Sequence[str]) -> dict[str, str]:
    """The words as a dict. Raises ConfigError for one that is no pair or has a key the verb does
    not take."""
    found: dict[str, str] = {}
    keys = list(VERBS[verb].options)
    for word in words:
        key, value = pair(verb, word, keys)
        if key not in keys:
            raise ConfigError(f"{verb}: there is no option '{key}'.{did_you_mean(key, keys)}")
        found[key] = unquoted(value)
    return found


def pair(verb: str, word: str, keys: Iterable[str] = ()) -> tuple[str, str]:
    """The key and the value of `word`, as it was typed. Raises ConfigError for one that is no
    pair."""
    key, sign, value = word.partition("=")
    if not sign:
        known = f" ({', '.join(keys)})" if keys else ""
        raise ConfigError(f"{verb}: '{word}' is not an option; write key=value{known}")
    return key, value


def unquoted(value: str) -> str:
    """A text without the quotes that Hydra's overrides may have around it: `'a b'`, `"it's"`,
    `'it\\'s'`."""
    quote = value[:1]
    inner = value[1:-1]
    if (
        quote not in ("'", '"')
        or len(value) < 2
        or value[-1] != quote
        or re.search(rf"(?<!\\){quote}", inner)
    ):
        return value
    return inner.replace(f"\\{quote}", quote)


def truth(key: str, text: str) -> bool:
    """What `true` or `false`, in any case, says. Raises ConfigError for another word."""
    said = {"true": True, "false": False}.get(text.strip().lower())
    if said is None:
        raise ConfigError(f"{key}: true or false is needed, found '{text}'")
    return said


def listed(text: str) -> list[str]:
    """The parts of a comma separated list, without the spaces around them and without empty
    ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def output_of(options: Mapping[str, str]) -> Path:
    """The output folder. Raises ConfigError where there is none."""
    output = Path(options.get("output", OUTPUT))
    if not output.is_dir():
        raise ConfigError(
            f"output: there is no folder '{output}'; name the one the Runs were written to: "
            "output=FOLDER"
        )
    return output


def sweep_of(output: Path, name: str) -> Path:
    """Folder of the sweep `name`. Raises ConfigError with the near name."""
    folder = sweep_folder(output, name)
    if not (folder / SWEEP).is_file():
        known = [path.parent.name for path in output.glob(f"sweeps/*/{SWEEP}")]
        raise ConfigError(
            f"sweep: there is no sweep '{name}' in {output}.{did_you_mean(name, known)}"
        )
    return folder


def output_above(source: Path) -> Path:
    """The output folder a Run's or sweep's folder lies in; `source` itself where it is neither."""
    source = Path(os.path.abspath(source))  # noqa: PTH100 - without `..`, but with links as they are named
    if (source / SWEEP).is_file():
        return source.parents[1]
    if (source / RECORD).is_file():
        return output_of_run(source)
    return source
