"""What `evopolicy-session --human` prints: an answer of the Host as plain text.

Standard library only, Python 3.8 syntax, copied beside the client into sandboxes.
"""

from __future__ import annotations

from typing import Any


def human(result: dict[str, Any]) -> str:
    """Plain text for a person: what matters first, whatever else there is as an indented list."""
    rest = dict(result)
    lines = [f"Session: {rest.pop('state')}"] if "state" in rest else []
    if isinstance(rest.get("submission"), dict):
        lines += _human_submission(rest.pop("submission"))
    if isinstance(rest.get("best"), dict):
        best = rest.pop("best")
        lines.append(
            f"Best so far: Submission {best.get('submission')}, score {_score(best.get('score'))}"
        )
    if isinstance(rest.get("budget"), dict):
        lines += _human_budget(rest.pop("budget"))
    made = [m for m in rest.pop("submissions", None) or () if isinstance(m, dict)]
    if made:
        lines.append(
            "Submissions: "
            + ", ".join(f"{m.get('id')} ({_leaf(m.get('score'), m.get('status'))})" for m in made)
        )
    following = rest.pop("next", None)
    lines += _tree({key: value for key, value in rest.items() if value is not None}, 0)
    if following:
        lines.append(f"Next: {following}")
    # Whatever a Program printed may be in here: nothing of it may steer the terminal.
    return "\n".join(
        "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in line) for line in lines
    )


def _score(score: Any) -> str:
    return f"{score:.6g}" if isinstance(score, float) else str(score)


def _human_submission(submission: dict[str, Any]) -> list[str]:
    rest = dict(submission)
    line = f"Submission {rest.pop('id', '?')}: {rest.pop('status', '?')}"
    score, done, total = (
        rest.pop("score", None),
        rest.pop("episodes_done", None),
        rest.pop("episodes_total", None),
    )
    if score is not None:
        line += f", score {_score(score)}"
    if total is not None:
        line += f" ({done} of {total} Episodes)" if done is not None else f" ({total} Episodes)"
    return [line, *_tree({key: value for key, value in rest.items() if value is not None}, 1)]


def _human_budget(budget: dict[str, Any]) -> list[str]:
    rest = dict(budget)
    lines = ["Budget:"]
    for name in ("episodes", "submissions"):
        left, total = rest.pop(f"{name}_left", None), rest.pop(f"{name}_total", None)
        if left is not None:
            lines.append(
                f"  {name.capitalize()}: {left}{'' if total is None else f' of {total}'} left"
            )
    size = rest.pop("pool_size", None)
    if size:
        lines.append(
            f"  Pool: indices 0 to {size - 1}" if isinstance(size, int) else f"  Pool: {size}"
        )
    rule = {
        "exhaust": "the Session ends when all Episodes are spent",
        "allow_early": "you may finish at any time",
    }
    if rest.get("finish") in rule:
        lines.append(f"  Finish: {rule[rest.pop('finish')]}")
    return lines + _tree({key: value for key, value in rest.items() if value is not None}, 1)


def _tree(value: Any, depth: int) -> list[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            name = pad + str(key).replace("_", " ")
            lines += (
                [f"{name}:", *_tree(inner, depth + 1)]
                if _is_tall(inner)
                else [f"{name}: {_leaf(inner)}"]
            )
        return lines
    if isinstance(value, list) and _is_tall(value):
        return [line for inner in value for line in _item(inner, depth)]
    return [pad + line for line in _leaf(value).splitlines()]


def _is_tall(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(inner, (dict, list)) or _is_tall(inner) for inner in value)
    return bool(value) if isinstance(value, dict) else isinstance(value, str) and "\n" in value


def _item(value: Any, depth: int) -> list[str]:
    first, *others = _tree(value, depth + 1) or ["  " * (depth + 1)]
    return ["  " * depth + "- " + first.lstrip(), *others]


def _leaf(value: Any, instead: Any = "none") -> str:
    if isinstance(value, (dict, list)):
        return ", ".join(_leaf(inner) for inner in value) or "none"
    return (
        ("yes" if value else "no")
        if isinstance(value, bool)
        else _score(instead if value is None else value)
    )
