"""Pushes the cart to the side the pole leans to."""

LEFT, RIGHT = 0, 1


class CartPolePolicy:
    def act(self, observation):
        cart_position, cart_velocity, pole_angle, pole_angular_velocity = observation
        return RIGHT if pole_angle > 0 else LEFT


def make_policy(context):
    return CartPolePolicy()
