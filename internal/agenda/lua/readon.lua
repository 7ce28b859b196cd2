-- readon reads on where look stopped. It writes nothing.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  user
-- ARGV[2]  1: the channels and groups matter
-- ARGV[3]  how many to read at most
-- ARGV[4]  how many to leave out at the beginning
-- ARGV[5]  the place from which to read, or the moment
-- ARGV[6]  the category of the backlog; absent for what is later
--
-- Result   see put_backlog and put_later
local agenda, channels = open_agenda(ARGV[1]), ARGV[2] == '1'
if not ARGV[6] then return put_later({}, agenda, ARGV[5], ARGV[4], ARGV[3], channels) end
return put_backlog({}, backlog_of(agenda, ARGV[6]).key, ARGV[5], ARGV[4], ARGV[3], channels)
