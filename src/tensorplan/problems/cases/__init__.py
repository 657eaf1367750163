"""Cases from operations research and finance."""
