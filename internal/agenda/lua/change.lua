-- change gives a notification that waits another priority, and other moments, and has it wait as these say.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  notification
-- ARGV[2]  priority; 0 releases it, for good: it stands before all others, and bypasses the limits
-- ARGV[3]  1 when that priority bypasses the limits, else 0
-- ARGV[4]  not before in µs (0: at once); "" has it wait for what it waits for
-- ARGV[5]  expires_at in µs (0: never)
-- ARGV[6]  payload ("": as it is)
-- ARGV[7]  SHA-1 of the payload that it must have for that ("": any)
-- ARGV[8]  kind and detail of the line of history ("": none)
--
-- Result   {one of these, deferrals decided: {user, category, how many, rule, …}}: 1 changed; 0 it has ended, or carries a digest that may have reached somebody; -1 it is unknown; -2 it has another payload; -3 it is being sent: a guarded store
--          has it changed for when it comes back
local id, not_before, expires = ARGV[1], ARGV[4], ARGV[5]
local key = partition .. 'n:' .. id
local user, state, priority, payload, collapse = unpack(redis.call('HMGET', key, F.user, F.state, F.priority, F.payload,
  F.collapse))
if not user then return { -1, deferrals } end
if ARGV[7] ~= '' and redis.sha1hex(payload) ~= ARGV[7] then return { -2, deferrals } end
if digests.is_frozen(id) then return { 0, deferrals } end
local agenda = open_agenda(user)

-- set writes a field, or removes it where it says nothing.
local function set(field, value)
  if value == '0' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, value) end
end

local function write_fields()
  if priority ~= '0' then
    redis.call('HSET', key, F.priority, ARGV[2])
    set(F.bypasses, ARGV[3])
  end
  if not_before ~= '' then
    set(F.not_before, not_before)
    redis.call('HDEL', key, F.retry_due)
  end
  set(F.expires, expires)
  if ARGV[6] ~= '' then redis.call('HSET', key, F.payload, ARGV[6]) end
  local kind, detail = string.match(ARGV[8], '^(%S+) ?(.*)$')
  if kind then add_to_history(id, now, kind, detail) end
end

-- wait_for_expiry has the sweeper end it at its expires_at.
local function wait_for_expiry()
  if expires ~= '0' then redis.call('ZADD', partition .. 'y', expires, id) else redis.call('ZREM', partition .. 'y', id) end
end

if state == S.sending then
  if GUARDED then write_fields() end
  return { -3, deferrals }
end
if not_before == '' and redis.call('ZSCORE', agenda.later, id) then
  write_fields()
  wait_for_expiry()
  return { 1, deferrals }
end
local category = remove_waiting(agenda, id)
if not category then return { 0, deferrals } end
write_fields()
if not_before ~= '' and tonumber(not_before) > now then
  redis.call('HSET', key, F.state, S.scheduled)
  add_later(agenda, id, not_before)
  count('scheduled', 1)
  wait_for_expiry()
  if collapse then redis.call('HSETNX', collapse_set(category, user), collapse, id) end
  wake_for_expiry(agenda, category)
  ensure_wakeup(agenda, tonumber(not_before))
else
  return_to_backlog(agenda, id)
  ensure_wakeup(agenda, now)
end
save_agenda(agenda)
cover_rest(agenda)
write_changes()
return { 1, deferrals }
