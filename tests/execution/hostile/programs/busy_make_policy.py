"""Never makes its Policy."""


def make_policy(context):
    while True:
        pass
