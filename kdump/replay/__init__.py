"""What the internal topics say, replayed record by record as the broker's own services do."""
