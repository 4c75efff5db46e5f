"""What a program of somebody's is started by and has to see."""

from __future__ import annotations

from pathlib import Path

from evopolicy.agents.command.program import started


def test_every_link_on_the_way_to_a_virtual_environments_python_is_shown(tmp_path: Path) -> None:
    base, venv = tmp_path / "base", tmp_path / "venv"
    for folder in (base / "bin", base / "lib" / "python3.11", venv / "bin"):
        folder.mkdir(parents=True)
    (base / "lib" / "python3.11" / "os.py").touch()
    (base / "bin" / "python3.11").touch()
    (base / "bin" / "python3").symlink_to("python3.11")
    (venv / "pyvenv.cfg").touch()
    (venv / "bin" / "python").symlink_to(base / "bin" / "python3")
    program = venv / "bin" / "mini"
    program.write_text(f"#!{venv}/bin/python\n")
    words, seen = started(program)
    assert words == [str(program)]
    assert {
        program,
        venv,
        base / "bin" / "python3",
        base / "bin" / "python3.11",
        base / "lib",
    } <= set(seen)
