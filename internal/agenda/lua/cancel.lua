-- cancel ends a notification that still waits. Those behind it move up.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  notification
-- ARGV[2]  retention of ended notifications in ms
-- ARGV[3]  reason
--
-- Result   1 cancelled; 0 it does not wait, or carries a digest that may have reached somebody; -1 it is unknown
local id = ARGV[1]
local user = redis.call('HGET', partition .. 'n:' .. id, F.user)
if not user then return -1 end
if digests.is_frozen(id) then return 0 end
local agenda = open_agenda(user)
local category = remove_waiting(agenda, id)
if not category then return 0 end
finish(id, category, S.cancelled, ARGV[3], ARGV[2])
wake_for_expiry(agenda, category)
save_agenda(agenda)
cover_rest(agenda)
remove_if_empty(agenda)
write_changes()
return 1
