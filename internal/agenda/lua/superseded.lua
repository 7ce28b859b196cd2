-- superseded reports whether a newer notification with the collapse key of another was accepted. It writes nothing.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the other notification
-- ARGV[2]  its category
-- ARGV[3]  its user
--
-- Result   1 one was, whatever became of it; 0 none was, or it is forgotten
return superseded(ARGV[2], ARGV[3], ARGV[1]) and 1 or 0
