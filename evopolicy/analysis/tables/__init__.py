"""The kinds of tables: from frames to rows."""
