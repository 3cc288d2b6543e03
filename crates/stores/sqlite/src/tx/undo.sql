DELETE FROM outbox_event
WHERE seq BETWEEN ?1 AND ?2;
