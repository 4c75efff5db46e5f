"""Down and to the right in turn, wherever it is."""

DOWN, RIGHT = 1, 2


class Walker:
    def __init__(self):
        self.step = 0

    def act(self, field):
        self.step += 1
        return DOWN if self.step % 2 else RIGHT


def make_policy(context):
    return Walker()
