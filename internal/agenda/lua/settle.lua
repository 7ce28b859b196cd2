-- settle writes the disposition of a delivery. A settlement of another generation than the one in flight changes
-- nothing. Neither does one of a grant that an earlier state of the partition gave out, unless a rebuild has restored
-- it: a new state counts the generations of all others from the start.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4]  generation that was granted
-- ARGV[5]  D delivered, F failed, E expired, C cancelled, R replaced, r retry, q back into the backlog, x to be
--          forgotten, since it has ended elsewhere
-- ARGV[6]  reason, for people to read
-- ARGV[7]  wait before a retry in µs
-- ARGV[8]  1: refund the throttle slot
-- ARGV[9]  1: the attempt counts as a failure; 2: there was no attempt, and the retry waits for its provider; 3: the
--          retry comes back behind what waits now; 4: both 1 and 3
-- ARGV[10] retention of ended notifications in ms
-- ARGV[11] the number of the epoch that granted it; 0 in a store that is not guarded
-- ARGV[12] the provider's reply, for people to read; it holds no control character
-- ARGV[13…] the plan, see read_plan, when the slot is refunded
--
-- Result   {1 when the settlement is stale, else 0, deferrals decided: {user, category, how many, rule, …}}
local category, user, id, generation, outcome, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply = ARGV[12]
local wait, refunds, counts_as, retention = tonumber(ARGV[7]), ARGV[8] == '1', ARGV[9], ARGV[10]
local fails, behind = counts_as == '1' or counts_as == '4', counts_as == '3' or counts_as == '4'
local key = partition .. 'n:' .. id
local f = redis.call('HMGET', key, 's', 'g', 'K', 'm', 'e', 'k', 'a', 'o', 'E', 'P')
local CURRENT, STALE = { 0, deferrals }, { 1, deferrals }

-- granted_in returns the number of the epoch that the generation in flight was granted in.
local function granted_in()
  local restored, epoch = string.match(f[9] or '', '^(%d+) (%d+)$')
  return restored == generation and epoch or string.match(EPOCH, '^%d+')
end
if f[2] ~= generation or GUARDED and granted_in() ~= ARGV[11] then return STALE end

local agenda = open_agenda(user)
if f[1] == 'q' and f[7] == generation and outcome ~= 'q' and remove_waiting(agenda, id) then
  -- The lease has ended, but there is no newer grant: this late result is still the latest.
  if not GUARDED then redis.call('HINCRBY', key, 'x', '-1') end
  redis.call('HDEL', key, 'a')
  wake_for_expiry(agenda, category)
elseif f[1] ~= 's' then
  -- It was settled before, and the reply was lost.
  return f[1] == 'q' and STALE or CURRENT
end

-- untried takes the attempt back: nothing was sent.
local function untried()
  redis.call('HINCRBY', key, 'o', '1')
  count('attempts', -1)
end

-- note_failure adds what became of the attempt to the history: until when it waits, why, the reply, when the attempt was
-- admitted, its number and its basis.
local function note_failure(due)
  local told = digits(due) .. ' ' .. reason .. '\t' .. reply
  if counts_as == '2' then
    add_to_history(id, now, 'held', told)
  else
    add_to_history(id, now, 'retrying', told .. '\t' .. f[4] .. ' ' .. digits(generation - (f[8] or 0)) .. ' ' .. (f[10] or ''))
  end
end

local function retry(due)
  redis.call('HSET', key, 's', 'r', 'y', reason, 'r', digits(due), 'R', digits(now), 'q', reply)
  add_later(agenda, id, digits(due))
  if f[5] then redis.call('ZADD', partition .. 'y', f[5], id) end
  if f[6] then redis.call('HSETNX', collapse_set(category, user), f[6], id) end
  count('retrying', 1)
  if fails then redis.call('HSET', key, 'n', digits(due)) end
  if behind then redis.call('HSET', key, 'l', digits(redis.call('INCR', partition .. 'a'))) end
  if counts_as == '2' then
    redis.call('HSET', key, 'w', '1')
    untried()
    count('held', 1)
  end
  ensure_wakeup(agenda, due)
end

-- charged_plan returns the plan with the named caps that count the grant, whatever caps the category is in by now.
local function charged_plan()
  local plan = read_plan(13)
  plan.named = {}
  for name in string.gmatch(f[3] or '', '%S+') do
    plan.named[#plan.named + 1] = { name = name, log = { max = 0, per = 0 } }
  end
  return set_plan_keys(plan, category, user)
end

local function settle()
  redis.call('ZREM', partition .. 'e', id)
  if refunds then refund(charged_plan(), tonumber(f[4]), id .. '#' .. generation) end
  if fails then redis.call('HINCRBY', key, 'f', '1') end
  local due = now + wait
  if outcome == 'r' then note_failure(due) end
  if outcome == 'r' and f[5] and due >= tonumber(f[5]) then outcome, reason, reply = 'E', 'expires_at', '' end
  if (outcome == 'r' or outcome == 'q') and superseded(category, user, id) then
    if outcome == 'q' or counts_as == '2' then untried() end
    outcome, reason, reply = 'R', 'collapse_key', ''
  end
  if outcome == 'r' then
    retry(due)
  elseif outcome == 'q' then
    untried()
    return_to_backlog(agenda, id)
    ensure_wakeup(agenda, now)
  elseif outcome == 'x' then
    redis.call('DEL', key)
    count('attempts', -1)
  else
    finish(id, category, outcome, reason, retention, reply ~= '' and reply or nil)
    if refunds and not GUARDED then redis.call('HSET', key, 'M', '1') end
  end
end

settle()
-- A notification that waits may use the refunded slot at once.
if refunds and outcome ~= 'q' and agenda.size > 0 then ensure_wakeup(agenda, now) end
save_agenda(agenda)
cover_rest(agenda)
remove_if_empty(agenda)
write_changes()
return CURRENT
