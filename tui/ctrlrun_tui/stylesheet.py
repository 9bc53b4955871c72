"""The stylesheet, parsed once: it keeps what it parsed as long as no variable of the theme changed.

It must not decide anything about how things look: that is in styles.tcss and the widgets.
"""

from __future__ import annotations

from textual.css.stylesheet import Stylesheet


class KeptStylesheet(Stylesheet):
    """A stylesheet for which the first showing of a screen is no reason to parse everything again.

    Textual takes each new theme and each new base screen for one: three times before the first
    frame, and once more for each view that is gone to for the first time.
    """

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take the theme's variables; what was parsed with others is forgotten."""
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what is new. The rules stay as they were if there is an error in it."""
        self.parse()
