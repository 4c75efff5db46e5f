"""An Action of the longest float there is: as an integer it has thousands of digits, too many to be written out."""

import numpy as np


class Policy:
    def act(self, observation):
        return np.array(np.longdouble("1e4500"))


def make_policy(context):
    return Policy()
