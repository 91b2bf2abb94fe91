"""Magics: parse a line, then call one public function that works without IPython."""
