"""Records -> frames -> rank scores and tables. Importing this package costs nothing: names load
when they are used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
