import numpy as np

class CartPolePolicy:
    def act(self, observation):
        return int(np.dot((0.1, 0.3, 1.0, 0.7), observation) > 0)

def make_policy(context):
    return CartPolePolicy()
