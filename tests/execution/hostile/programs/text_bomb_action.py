"""One long text among many short ones: an array of them all is as wide as the longest, for each."""


class Policy:
    def act(self, observation):
        return ["x" * 20_000] + [""] * 20_000


def make_policy(context):
    return Policy()
