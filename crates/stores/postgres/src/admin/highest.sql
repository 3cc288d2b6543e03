SELECT CASE WHEN is_called THEN last_value ELSE 0 END
FROM outbox_event_seq_seq;
