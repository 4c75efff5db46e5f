"""MLflow as a projection of records: what a Run's folder says, logged while it grows or rebuilt
afterwards.

`store` finds and prepares the place, `project` and `compare` say what is logged (no MLflow in
them), `log` writes it, `cells` and `tracker` bring a Run and a sweep up to date, `follow` does so
while they go on or rebuilds them, `views` and `ui` open it on the answer. MLflow takes seconds to
import, so it is imported inside functions only."""
