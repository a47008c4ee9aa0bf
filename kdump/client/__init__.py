"""Running clusters, spoken to by librdkafka; nothing here knows of files."""
