"""Problems: the catalog, and one package per kind of problem."""
