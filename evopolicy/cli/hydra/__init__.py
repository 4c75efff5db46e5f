"""All that Hydra does: groups and schema, one composed config, several cells, its errors in plain
words."""
