-- Rights of the serving role, set again after every migration.
GRANT USAGE ON SCHEMA public TO monitor_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO monitor_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO monitor_app;
REVOKE INSERT, UPDATE, DELETE ON schema_migrations FROM monitor_app;
REVOKE UPDATE, DELETE, TRUNCATE ON scaling_decisions FROM monitor_app;
GRANT TRUNCATE ON journal_0, journal_1, journal_2, journal_3 TO monitor_app;
GRANT EXECUTE ON FUNCTION log_add_days(date, date), log_drop_days(date) TO monitor_app;
