"""Hits up to 19, whatever the dealer shows."""

STICK, HIT = 0, 1


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        pass

    def reset(self, episode_index):
        pass

    def act(self, obs):
        player_sum, dealer_card, usable_ace = obs
        return HIT if player_sum < 20 else STICK
