"""The oracle with a target's face: nothing is generated, the IR itself runs."""
