"""Problems from operations research and finance."""
