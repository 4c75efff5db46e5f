"""Names a module that ends whoever imports it, in a function that is never called."""


def never():
    import numpy.f2py.__main__


class Policy:
    def act(self, observation):
        return 0


def make_policy(context):
    return Policy()
