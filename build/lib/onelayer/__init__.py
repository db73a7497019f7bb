"""onelayer: how much of reinforcement learning's gain can one transformer layer carry?"""
