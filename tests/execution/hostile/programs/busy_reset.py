"""Never finishes its reset."""


def make_policy(context):
    return Hostile()


class Hostile:
    def reset(self):
        while True:
            pass

    def act(self, observation):
        return 1
