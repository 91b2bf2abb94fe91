"""IR to IR, for every target: one idea a file, each Module to Module with remarks.

A pass that only one target needs lives with that target; facts about IR live in analysis/.
"""
