"""A table says the same in three forms, and no text in it is taken for markup."""

from __future__ import annotations

import json

from evopolicy.tracking.tables import Table, uploads

TABLE = Table("rank", "quick <b>", ("entry", "rank score", "x"), (("<script>alert(1)</script> | *a*", "1.000", None),))


def test_text_is_escaped_in_html() -> None:
    html = TABLE.html()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<b>" not in html


def test_text_is_escaped_in_markdown() -> None:
    row = TABLE.markdown().splitlines()[-1]
    assert "\\<script\\>" in row
    assert "\\| \\*a\\*" in row


def test_json_keeps_values() -> None:
    rows = json.loads(TABLE.json())["rows"]
    assert rows == [{"entry": "<script>alert(1)</script> | *a*", "rank score": "1.000", "x": None}]


def test_it_is_logged_in_three_forms() -> None:
    assert [upload.target for upload in uploads(TABLE)] == ["rank.json", "rank.md", "rank.html"]
